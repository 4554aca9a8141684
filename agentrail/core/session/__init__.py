"""The machine: its state, the table of what is legal, and for each subject the room that takes its signals."""
