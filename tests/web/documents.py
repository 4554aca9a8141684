"""Documents: pages, and PDF made by hand, so that no program is needed for it."""

HTML = b"""<!doctype html><html><head><title>A &amp; B</title><script>var hidden = 1</script><style>p {}</style></head>
<body><nav><a href="/home">Home</a></nav><article><h1>Trains</h1>
<p>First class is booked from four hours on, and everybody who travels with us knows how that is done.</p>
<p>Second class is <a href="/second">for all others</a>, which is most of the people who travel here.</p>
<table><tr><th>from</th><th>to</th></tr><tr><td>Bern</td><td>Thun</td></tr></table></article></body></html>"""


def pdf(*pages, title="A title"):
    """A PDF with a line of text on each page."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        f"<</Title({title})>>".encode(),
    ]
    kids = []
    for text in pages:
        content = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET".encode()
        objects.append(b"<</Length %d>>stream\n%s\nendstream" % (len(content), content))
        page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents {} 0 R/Resources<</Font<</F1 3 0 R>>>>>>"
        objects.append(page.format(len(objects)).encode())
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<</Type/Pages/Count {len(pages)}/Kids[{' '.join(kids)}]>>".encode()
    return assembled(objects)


def assembled(objects):
    """A file of objects, with its table and its trailer."""
    out = bytearray(b"%PDF-1.7\n")
    places = []
    for number, one in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj" % number + one + b"endobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer<</Size %d/Root 1 0 R/Info 4 0 R>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start)
    return bytes(out)
