"""HTTP in front of a host: routes, answers, streams, who may call. Adds no behaviour of its own to sessions."""
