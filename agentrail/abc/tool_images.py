"""Checks of number, size and format of a result's images, where the tool's author creates it. A prompt's images have the same format."""

import binascii
import re
from collections.abc import Iterable
from typing import Final

from agentrail.errors import ToolContractError
from agentrail.messages import Image
from agentrail.otp.guarded_calls import repr_of

MAX_RESULT_IMAGES: Final = 10
MAX_IMAGE_BYTES: Final = 5 << 20

_MEDIA_TYPE: Final = re.compile(r"image/[a-z0-9][a-z0-9.+-]{0,63}")


def checked_images(given: object) -> tuple[Image, ...]:
    """Return the validated images of a result."""
    # The usual case. The check for an iterable costs more than the rest.
    if type(given) is tuple and not given:
        return ()
    if isinstance(given, str | bytes | Image) or not isinstance(given, Iterable):
        message = (
            f"the images of a result are {repr_of(given):.80}: expected a tuple of Image, such as (Image(…),)"
        )
        raise ToolContractError(message)
    images = tuple(given)
    if len(images) > MAX_RESULT_IMAGES:
        message = f"a result has {len(images)} images, at most {MAX_RESULT_IMAGES} are allowed: write the others to files and return their paths in the text"
        raise ToolContractError(message)
    for place, image in enumerate(images):
        fault = fault_of_image(image)
        if fault is not None:
            message = f"image {place} of a result {fault}"
            raise ToolContractError(message)
    return images


def fault_of_image(image: object) -> str | None:
    """Return the fault of an image that no model would accept, or None."""
    if not isinstance(image, Image):
        return f"is {repr_of(image):.80}: expected Image(media_type=…, data=…)"
    media_type: object = image.media_type
    if not isinstance(media_type, str) or _MEDIA_TYPE.fullmatch(media_type) is None:
        return f"has the media type {repr_of(media_type):.80}: expected one such as image/png"
    name: object = image.name
    if not isinstance(name, str):
        return f"has the name {repr_of(name):.80}: expected text"
    data: object = image.data
    if not isinstance(data, str) or not data:
        return f"has the data {repr_of(data):.80}: expected base64-encoded bytes"
    if image.size_bytes > MAX_IMAGE_BYTES:
        return f"has {image.size_bytes:,} bytes, at most {MAX_IMAGE_BYTES:,} are allowed: shrink it, or write it to a file and return its path in the text"
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError as error:  # not base64, or not ASCII
        return (
            f"has data that is not base64 without line breaks: {error}; give base64.b64encode(raw).decode()"
        )
    return None
