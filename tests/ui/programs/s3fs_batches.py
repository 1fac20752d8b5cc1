"""A training run that reads its samples with s3fs, a batch at once on the one thread of its loop."""

import os

import dliotrace
import s3fs

dliotrace.objects.install()
store = s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"])
for step in range(4):
    with dliotrace.span("fetch", "data", step=step):
        batch = store.cat([f"bucket/samples/{number}" for number in range(8)])
    with dliotrace.span("compute", "compute", step=step):
        assert sum(map(len, batch.values())) == 800_000
