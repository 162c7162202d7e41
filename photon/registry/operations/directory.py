"""The directory of one endpoint: which table is whose; making and removing tables (protocol B9).

`photon-pipelines` names, for each pipeline, the table that was made last at this endpoint. Its name has the
incarnation of the store in it; which incarnation counts is said by the register's members, not here.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from photon.clock import Clock
from photon.registry.address import EndpointAddress, table_name
from photon.registry.dynamodb.answers import UNREADABLE
from photon.registry.endpoints.endpoints import Deadline
from photon.registry.interface import RegistryUnavailable
from photon.registry.open import connection

DIRECTORY = "photon-pipelines"
ADMIN_TIMEOUT = timedelta(seconds=10)  # tables are made more slowly than items
# Of the directory and of the tables that it names; infra/aws-registry.yaml has the same.
TABLE_DEFINITION: dict[str, Any] = {
    "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in "ps"],
    "KeySchema": [{"AttributeName": "p", "KeyType": "HASH"}, {"AttributeName": "s", "KeyType": "RANGE"}],
    "BillingMode": "PAY_PER_REQUEST",
}
TABLE_SECONDS = 120.0  # AWS takes about ten to make a table


def new_incarnation() -> str:
    """A random name for a store that is empty: 16 hex digits."""
    return secrets.token_hex(8)


class Directory:
    """The directory at one endpoint. Methods raise RegistryUnavailable, which names it, if it is silent."""

    def __init__(self, endpoint: EndpointAddress, clock: Clock) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._client: Any = None

    def table_of(self, pipeline: str) -> str | None:
        """The table that is named for a pipeline; None if there is none."""
        key = {"p": {"S": "pipeline"}, "s": {"S": pipeline}}
        try:
            named: str | None = self._call(
                lambda c: _table_named(c.get_item(TableName=DIRECTORY, Key=key, ConsistentRead=True))
            )
        except _TableMissing:
            return None
        return named

    def ensure_table_of(self, pipeline: str) -> str:
        """The pipeline's table, made if there is none; of two who make one at once, that of the first."""
        named = self.table_of(pipeline)
        if named is not None:
            return named
        self.create(DIRECTORY)
        table = table_name(pipeline, new_incarnation())
        self.create(table)
        if not self._name(pipeline, table, **_named_is(None)):
            self.remove(table)  # nobody has heard of ours: the directory names another one
        return self.table_of(pipeline) or table

    def replace_table_of(self, pipeline: str, old: str | None, new: str) -> bool:
        """Make a table and name it for the pipeline, if `old` is what is named: only a repair does so.

        If another one is, the new table is removed again.
        """
        self.create(DIRECTORY)
        self.create(new)
        is_named = self._name(pipeline, new, **_named_is(old))
        if not is_named:
            self.remove(new)
        return is_named

    def tables_of(self, pipeline: str) -> list[str]:
        """All tables of a pipeline that are there, also those that are named no more."""
        own = re.compile(re.escape(table_name(pipeline, "")) + "[0-9a-f]{16}")  # and of no pipeline-more
        names: list[str] = []
        page: dict[str, Any] = {}
        while True:
            found, last = self._call(partial(_page_of_names, page))
            names += found
            if last is None:
                return [name for name in names if own.fullmatch(name)]
            page = {"ExclusiveStartTableName": last}

    def has(self, table: str) -> bool:
        """Whether there is such a table."""
        try:
            self._call(lambda client: client.describe_table(TableName=table))
        except _TableMissing:
            return False
        return True

    def create(self, table: str) -> None:
        """Make a table, unless it is there, and wait until it can be used."""
        self._call(
            lambda client: client.create_table(TableName=table, **TABLE_DEFINITION),
            settled_by=("ResourceInUseException",),
        )
        deadline = Deadline(self._clock, TABLE_SECONDS)
        while self._call(lambda c: c.describe_table(TableName=table)["Table"]["TableStatus"]) != "ACTIVE":
            if not deadline.pause():
                raise RegistryUnavailable(
                    f"the table {table} at {self.endpoint} was not ready within {TABLE_SECONDS:.0f} s"
                )

    def remove(self, table: str) -> None:
        """Remove a table, if it is there."""
        self._call(lambda c: c.delete_table(TableName=table), settled_by=("ResourceNotFoundException",))

    def _name(self, pipeline: str, table: str, **condition: Any) -> bool:
        item = {"p": {"S": "pipeline"}, "s": {"S": pipeline}, "t": {"S": table}}
        answer = self._call(
            lambda client: client.put_item(TableName=DIRECTORY, Item=item, **condition),
            settled_by=("ConditionalCheckFailedException",),
        )
        return answer is not None

    def _call(self, request: Callable[[Any], Any], settled_by: tuple[str, ...] = ()) -> Any:
        """What `request` makes of the answer; None if an error of these names says that nothing is to do."""
        try:
            if self._client is None:
                self._client = connection(self.endpoint, ADMIN_TIMEOUT, 1)()
            return request(self._client)
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in settled_by:
                return None
            if code == "ResourceNotFoundException":
                raise _TableMissing(f"a table is missing at {self.endpoint}: {error}") from error
            raise EndpointSilent(self.endpoint, str(error)) from error
        except BotoCoreError as error:
            raise EndpointSilent(self.endpoint, str(error)) from error
        except UNREADABLE as error:
            raise EndpointSilent(self.endpoint, f"an answer that can't be read: {error!r}") from error


def _table_named(answer: Mapping[str, Any]) -> str | None:
    item = answer.get("Item")
    return None if item is None else str(item["t"]["S"])


def _page_of_names(page: Mapping[str, Any], client: Any) -> tuple[list[str], str | None]:
    answer = client.list_tables(**page)
    return list(map(str, answer["TableNames"])), answer.get("LastEvaluatedTableName")


def _named_is(table: str | None) -> dict[str, Any]:
    if table is None:
        return {"ConditionExpression": "attribute_not_exists(p)"}
    return {"ConditionExpression": "t = :named", "ExpressionAttributeValues": {":named": {"S": table}}}


class EndpointSilent(RegistryUnavailable):
    """The endpoint gave no answer that says anything; `reason` without the endpoint's name."""

    def __init__(self, endpoint: EndpointAddress, reason: str) -> None:
        super().__init__(f"{endpoint} does not answer ({reason})")
        self.reason = reason


class _TableMissing(RegistryUnavailable):
    pass
