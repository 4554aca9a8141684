"""The room of the providers: one file per wire format, and what they share.

A provider implements `agentrail.abc.Provider`: it turns a `ModelRequest` into the bytes of a body, and what comes back
into chunks. It decides nothing else; retries, fallbacks and budgets are decided in the core, from what it reports.

Each format is two pure halves, a projection (request to bytes) and a reader (event to chunks), and one thin piece that
joins them over `http.py`, the only module that knows the HTTP library. So a transcript tests a reader without Trio.

    async with HttpClients() as http:
        provider = OpenAIChat(ProviderOptions.parse({"base_url": "http://127.0.0.1:8080/v1"}), http)
        async with provider.open_stream(request) as chunks:
            async for chunk in chunks:
                ...

Nothing here reads the environment: keys and addresses arrive as options.
"""
