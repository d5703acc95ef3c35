"""PostgreSQL and S3 together, in the environment of this process and of those that it starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest

from tests.servers import Bucket, Postgres, bucket, postgres

BUCKET = "studies"


@dataclass(frozen=True, kw_only=True)
class Servers:
    """PostgreSQL and S3, up as long as the tests are."""

    postgres: Postgres
    s3: Bucket

    @classmethod
    def with_template(cls, postgres: Postgres, s3: Bucket) -> Servers:
        """Makes MLflow's tables once, which takes it seconds; each test gets a copy of them."""
        from sentune.tracking.environment import quieten_mlflow

        quieten_mlflow()
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

        store = SqlAlchemyStore(postgres.make("template_mlflow"), f"s3://{BUCKET}/template")
        store.engine.dispose()
        return cls(postgres=postgres, s3=s3)


@contextmanager
def servers() -> Iterator[Servers]:
    """Both, while the block runs; Ray's workers find the keys in the environment."""
    with ExitStack() as up:
        database, s3 = up.enter_context(postgres()), up.enter_context(bucket())
        patched = up.enter_context(pytest.MonkeyPatch.context())
        for name, value in {**database.variables, **s3.variables}.items():
            patched.setenv(name, value)
        s3.make(BUCKET)
        yield Servers.with_template(database, s3)
