"""The frontier that several machines share: Redis, one Lua script a verb.

An answer that was lost is asked for again. To add, block or give an order twice changes nothing; a
claim that is lost runs out of its lease; whoever ends a claim says, the second time, that it is the
second, and is told yes when the first had come through.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import batched
from random import Random
from typing import Any, Self

from core.redis_url import RedisAddress
from core.settings import FrontierSettings, PolitenessSettings
from core.timestamps import microseconds, milliseconds, milliseconds_up
from core.timestamps import moment as to_moment
from core.urls import identity_and_host
from crawler.frontier import packing
