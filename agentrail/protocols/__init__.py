"""Protocols that programs of others speak, as translations: one file per wire. Pure.

A bridge is a fold, of what a session publishes into frames, and a function, of what a client says into what is to be done. No
connection, no clock and no library of a protocol may enter; who writes the frames, and who carries out what was decided, stands in
`gateway/protocols`. A protocol is a translation and no second way in: it knows of no gate, and so it passes none by.
"""
