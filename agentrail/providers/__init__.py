"""The room of the providers: one file per wire format, and what they share.

A provider implements `agentrail.abc.Provider`: it turns a `ModelRequest` into the bytes of a body, and what comes back
into chunks. It decides nothing else; retries, fallbacks and budgets are decided in the core, from what it reports.

Each format is a `WireFormat` of two pure halves: `x_request.py` (request to bytes) and `x_stream.py` (event to chunks). One
`HttpProvider` carries any of them out, over `http.py`, the only module that knows the HTTP library; `x.py` gives it the name of
the vendor. So a transcript tests a format without Trio, and who imports one does not load what talks to servers.

    async with HttpClients() as http:
        provider = OpenAIChat(ProviderOptions.parse({"base_url": "http://127.0.0.1:8080/v1"}), http)
        async with provider.open_stream(request) as chunks:
            async for chunk in chunks:
                ...

Nothing here reads the environment: keys and addresses arrive as options.
"""
