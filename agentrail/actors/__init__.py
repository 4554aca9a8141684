"""Actors on Trio, with no word of agents: so far the mailbox. Supervision, monitors and the registry are to follow.

mailbox: Mailbox[str] = Mailbox(capacity=100)
mailbox.put_nowait("hello")         # raises MailboxFull when 100 wait
message = await mailbox.get()
"""
