"""The model providers: one module per wire format, and their shared code.

A provider implements `agentrail.abc.Provider`: it encodes a `ModelRequest` as the bytes of a body, and decodes the response
into chunks. It makes no other decisions: the core decides about retries, fallbacks and budgets, based on its reports.

Each format is a `WireFormat` of two pure halves, requests to bytes and events to chunks, in `x_format.py`. One
`HttpProvider` runs any of them over `http.py`, the only module that uses the HTTP library. `vendors.py` names the
combinations. A transcript can therefore test a format without Trio, and importing a format loads no HTTP code.

    async with HttpClients() as http:
        provider = OpenAIChat(ProviderOptions.parse({"base_url": "http://127.0.0.1:8080/v1"}), http)
        async with provider.open_stream(request) as chunks:
            async for chunk in chunks:
                ...

Nothing here reads the environment: keys and addresses arrive as options.
"""
