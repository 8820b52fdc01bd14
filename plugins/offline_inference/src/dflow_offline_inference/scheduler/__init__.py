"""Whether a request may run now. `order`, `dependencies` and `admission` decide; `scheduler` waits and hands over."""

from dflow_offline_inference.scheduler.admission import Admission, Answers, Hopeless, Limits
from dflow_offline_inference.scheduler.dependencies import Dependencies
from dflow_offline_inference.scheduler.order import Place, WaitingOrder, rank_of
from dflow_offline_inference.scheduler.scheduler import Scheduler

__all__ = [
    "Admission", "Answers", "Dependencies", "Hopeless", "Limits", "Place", "Scheduler", "WaitingOrder", "rank_of",
]
