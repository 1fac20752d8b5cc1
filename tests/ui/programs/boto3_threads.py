"""A training run that reads its samples with boto3, on four threads, and saves a checkpoint."""

import concurrent.futures
import os

import boto3
import dliotrace

dliotrace.objects.install()
store = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def sample(number):
    return store.get_object(Bucket="bucket", Key=f"samples/{number}")["Body"].read()


with concurrent.futures.ThreadPoolExecutor(4) as readers:
    for step in range(4):
        with dliotrace.span("fetch", "data", step=step):
            batch = list(readers.map(sample, range(8)))
        with dliotrace.span("compute", "compute", step=step):
            assert sum(map(len, batch)) == 800_000
store.put_object(Bucket="bucket", Key="checkpoint", Body=bytes(1_000_000))
