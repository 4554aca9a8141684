"""The public test kit: models that answer from a script, a scenario runner, and checks for whatever is left behind.

model = ScriptedModel([calls(("add", {"a": 1})), says("one")])
session = await supervisor.start_session(model=model, tools=[add])
"""
