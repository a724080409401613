"""Hooks: functions called inside the order of a rank, such as a check in a bubble."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule import Action
from evenflow_torch.run.engine.runtime import Runtime
from evenflow_torch.run.engine.torch_names import COMPUTING, HOOK, TorchAction, torch_action


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A function that the runtime calls behind one of the rank's actions, in every step."""

    after: Action
    """Action that has ended, with its message on the way and the input of the next action asked for."""
    run: Callable[[Runtime], None]
    """Function of the runtime; `kept_of` its stages are inputs and outputs of live microbatches."""


def insert_hooks(runtime: Runtime, hooks: Sequence[Hook]) -> None:
    """Place the hooks behind their action and its message.

    They stand behind the receives that follow too, so that messages arrive while they work.

    Raises:
        InputError: a hook follows an action of another rank.
    """
    if hooks:
        runtime.keeps_outputs = True
        insert_calls(runtime, hooks)


def insert_calls(runtime: Runtime, hooks: Sequence[Hook]) -> None:
    """Do the same for `hooks` that read nothing of what stages keep, and are some."""
    own_order = runtime.pipeline_order_with_comms[runtime.rank]
    chosen: dict[TorchAction, list[Hook]] = defaultdict(list)
    for hook in hooks:
        chosen[torch_action(hook.after)].append(hook)
    for action in chosen.keys() - set(own_order):
        raise InputError(value=str(action), rule=_("must follow actions of their own rank"), place="hooks")
    order: list[TorchAction] = []
    waiting: list[Hook] = []
    for action in [*own_order, None]:
        if waiting and (action is None or action.computation_type in COMPUTING):
            for hook in waiting:
                order.append(TorchAction(hook.after.stage, HOOK, len(runtime.hooked)))
                runtime.hooked.append(hook.run)
            waiting = []
        if action is not None:
            order.append(action)
            waiting += chosen.get(action, [])
    runtime.pipeline_order_with_comms[runtime.rank] = order

    def call(action: Any, _context: Any) -> None:
        runtime.hooked[action.microbatch_index](runtime)

    if len(runtime.hooked) == len(hooks):  # the first ones
        runtime.register_custom_function(HOOK, call)
