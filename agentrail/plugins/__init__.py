"""Plugins: pure reducers that observe and steer a session. Plugin authors need only `from agentrail import plugins as p`.

A plugin receives a hook event, its own state and a read-only context, and returns one action. It awaits nothing, reads no
clock and does no I/O. It requests work through its actions. `agentrail.testing.check_plugin` verifies these rules.

    class Audit(p.Plugin[Calls]):
        def init(self) -> Calls:
            return Calls()

        @p.on(p.BeforeTool)
        def note(self, event: p.BeforeTool, state: Calls, ctx: p.Context) -> p.Action[Calls]:
            return p.Continue(Calls((*state.seen, event.name)))
"""

from agentrail.core.protocol.actions import (
    MATRIX as MATRIX,
    Abort as Abort,
    Action as Action,
    BlockTool as BlockTool,
    CallModel as CallModel,
    Continue as Continue,
    Emit as Emit,
    Hints as Hints,
    Intervene as Intervene,
    KeepMemory as KeepMemory,
    ReadFile as ReadFile,
    ReadInstructions as ReadInstructions,
    ReadNotes as ReadNotes,
    ReplaceMessages as ReplaceMessages,
    ReplaceResponse as ReplaceResponse,
    ReplaceToolArgs as ReplaceToolArgs,
    ReplaceToolResult as ReplaceToolResult,
    Request as Request,
    RequireApproval as RequireApproval,
    ResolveApproval as ResolveApproval,
    Search as Search,
    Skip as Skip,
    SwitchModel as SwitchModel,
    Treatment as Treatment,
    WriteFile as WriteFile,
    WriteNotes as WriteNotes,
)
from agentrail.core.protocol.hooks import (
    HOOKS as HOOKS,
    AfterResponse as AfterResponse,
    AfterTool as AfterTool,
    AfterToolBatch as AfterToolBatch,
    AfterTurn as AfterTurn,
    BeforeCompact as BeforeCompact,
    BeforeFinish as BeforeFinish,
    BeforePluginOptsUpdate as BeforePluginOptsUpdate,
    BeforePrompt as BeforePrompt,
    BeforeRequest as BeforeRequest,
    BeforeSteering as BeforeSteering,
    BeforeTool as BeforeTool,
    FileText as FileText,
    FileWritten as FileWritten,
    Found as Found,
    HookEvent as HookEvent,
    InstructionsFound as InstructionsFound,
    MemoryKept as MemoryKept,
    ModelAnswer as ModelAnswer,
    NotesIndex as NotesIndex,
    OnToolError as OnToolError,
    RequestDone as RequestDone,
    RequestFailed as RequestFailed,
    SessionEnding as SessionEnding,
    SessionStarted as SessionStarted,
    UnreadInstructions as UnreadInstructions,
)
from agentrail.core.stack.plugin import Context as Context
from agentrail.core.values.instruction_order import InstructionFile as InstructionFile
from agentrail.core.values.notes_markdown import NoteTopic as NoteTopic
from agentrail.core.values.seeded_random import SeededRandom as SeededRandom
from agentrail.frozen import frozen_json as frozen_json
from agentrail.plugins.auto_checkpoint import AutoCheckpoint as AutoCheckpoint
from agentrail.plugins.auto_recall import AutoRecall as AutoRecall
from agentrail.plugins.base import (
    FunctionPlugin as FunctionPlugin,
    Plugin as Plugin,
    action_type as action_type,
    apply_config_update as apply_config_update,
    extract_state as extract_state,
    is_plugin as is_plugin,
    on as on,
    plugin as plugin,
    short_circuit as short_circuit,
)
from agentrail.plugins.citations import Citations as Citations
from agentrail.plugins.content_policy import ContentPolicy as ContentPolicy
from agentrail.plugins.cost_guard import CostGuard as CostGuard
from agentrail.plugins.episodic_memory import EpisodicMemory as EpisodicMemory
from agentrail.plugins.event_logger import EventLogger as EventLogger
from agentrail.plugins.human_approval import HumanApproval as HumanApproval
from agentrail.plugins.large_result_offload import LargeResultOffload as LargeResultOffload
from agentrail.plugins.memory_flush import MemoryFlush as MemoryFlush
from agentrail.plugins.memory_loader import MemoryLoader as MemoryLoader
from agentrail.plugins.model_router import ModelRouter as ModelRouter
from agentrail.plugins.output_filter import OutputFilter as OutputFilter
from agentrail.plugins.patch_tool_calls import PatchToolCalls as PatchToolCalls
from agentrail.plugins.permissions import Permissions as Permissions
from agentrail.plugins.planning import Planning as Planning
from agentrail.plugins.prompt_cache import PromptCache as PromptCache
from agentrail.plugins.recovery import Recovery as Recovery
from agentrail.plugins.reflection import Reflection as Reflection
from agentrail.plugins.security_guard import SecurityGuard as SecurityGuard
from agentrail.plugins.skill_guard import SkillGuard as SkillGuard
from agentrail.plugins.skill_listing import SkillListing as SkillListing
from agentrail.plugins.working_notes import WorkingNotes as WorkingNotes
from agentrail.structs import replace as replace
