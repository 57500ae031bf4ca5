"""Settings of the operator's side: those of the store, and how a worker works."""

from typing import Annotated, Literal

from pydantic import Field

from todo_write.settings import InvalidSetting, mask, variable
from todo_write.settings import Settings as StoreSettings

__all__ = ["InvalidSetting", "Settings", "mask", "variable"]

LogLevel = Literal["debug", "info", "warning", "error"]


class Settings(StoreSettings):
    """Everything that can be set for the worker and the carriers, with its default."""

    batch_max: Annotated[int, Field(ge=1, le=10_000, description="pointers read from a feed at once, 1 to 10000")] = 128
    block_ms: Annotated[int, Field(ge=1, le=1000, description="longest wait of one read, 1 to 1000 ms")] = 1000
    beat_ms: Annotated[int, Field(ge=100, le=60_000, description="time between two beats, 100 to 60000 ms")] = 1000
    claim_idle_ms: Annotated[
        int, Field(ge=100, le=3_600_000, description="when another's pointers are taken over, 100 to 3600000 ms")
    ] = 10_000
    stuck_ms: Annotated[int, Field(ge=1, description="in progress for longer is stuck, 1 ms or more")] = 900_000
    quiet_ms: Annotated[int, Field(ge=1, description="no event for longer is quiet, 1 ms or more")] = 600_000
    log_level: Annotated[LogLevel, Field(description="debug, info, warning or error")] = "info"
    grace_ms: Annotated[int, Field(ge=0, le=600_000, description="time to end after SIGTERM, 0 to 600000 ms")] = 10_000
