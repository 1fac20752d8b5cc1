"""Tests requests of common clients: as counted by the store and as recorded in the trace."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import unittest

from traces import TracedTest

STORE = os.environ.get("DLIO_TEST_STORE")
HEAD = """
import dliotrace.objects
dliotrace.objects.install()
dliotrace.objects.install()
import os
ENDPOINT = os.environ["AWS_ENDPOINT_URL"]
"""


def missing(*modules):
    """Returns the missing requirements of the tests of these modules; empty if there are none."""
    lacks = [name for name in modules if importlib.util.find_spec(name) is None]
    lacks += [] if STORE else ["the store (DLIO_TEST_STORE)"]
    return ", ".join(lacks)


class Store:
    """The store of the tests, in a separate process."""

    def __init__(self):
        self.process = subprocess.Popen([STORE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.endpoint = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"

    def tell(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def seen(self):
        return json.loads(self.tell("seen"))

    def stop(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


class Objects(TracedTest):
    def setUp(self):
        super().setUp()
        self.store = Store()
        self.addCleanup(self.store.stop)

    def start(self, *command, **variables):
        return super().start(
            *command, AWS_ENDPOINT_URL=self.store.endpoint, AWS_ACCESS_KEY_ID="AKIDTESTSTORE", AWS_REGION="us-east-1",
            AWS_SECRET_ACCESS_KEY="not-to-be-seen-anywhere", AWS_DEFAULT_REGION="us-east-1", **variables)

    def put(self, *sizes):
        for number, size in enumerate(sizes):
            self.store.tell(f"put data/{number}.bin {size}")

    def traced(self, code):
        """Returns the trace of a program and the store's counts."""
        trace, said = self.trace_code(HEAD + code)
        return trace, self.store.seen(), said

    def assert_seen(self, trace, seen):
        """Requests of each kind and bytes are those of the store's own count."""
        for method, names in (("GET", ("get", "list")), ("HEAD", ("head",)), ("PUT", ("put", "part")),
                              ("POST", ("begin", "complete")), ("DELETE", ("delete", "abort"))):
            wanted = ", ".join(f"'object.{name}'" for name in names)
            count = sum(1 for request in seen if request["method"] == method)
            self.assertEqual(trace.count(f"name in ({wanted})"), count, (method, seen))
        objects = [request for request in seen if request["key"]]
        sent = sum(request["sent"] for request in objects if request["method"] == "GET")
        received = sum(request["received"] for request in objects if request["method"] == "PUT" and request["status"] < 300)
        moved = "select coalesce(sum(bytes), 0) as n from events where name in {}"
        self.assertEqual(int(trace.value(moved.format("('object.get')"))), sent)
        self.assertEqual(int(trace.value(moved.format("('object.put', 'object.part')"))), received)


@unittest.skipIf(missing("boto3"), f"without {missing('boto3')}")
class Boto3(Objects):
    def test_requests_retries_and_bytes_are_the_stores(self):
        self.put(100_000, 300_000, 5_000)
        self.store.tell("fault GET 0.bin 2 503")
        self.store.tell("fault GET 1.bin 1 reset")
        trace, seen, _ = self.traced("""
import boto3
from botocore.config import Config
store = boto3.client("s3", endpoint_url=ENDPOINT, config=Config(retries={"max_attempts": 5, "mode": "standard"}))
whole = store.get_object(Bucket="bucket", Key="data/0.bin")["Body"].read()
assert len(whole) == 100_000
with store.get_object(Bucket="bucket", Key="data/1.bin")["Body"] as body:
    assert sum(map(len, iter(lambda: body.read(1 << 16), b""))) == 300_000
part = store.get_object(Bucket="bucket", Key="data/2.bin", Range="bytes=1000-1999")["Body"]
assert b"".join(part.iter_chunks(300)) == whole[1000:2000]
store.put_object(Bucket="bucket", Key="new/x y.bin", Body=b"y" * 70_000)
assert store.head_object(Bucket="bucket", Key="new/x y.bin")["ContentLength"] == 70_000
assert [one["Key"] for one in store.list_objects_v2(Bucket="bucket", Prefix="new/")["Contents"]] == ["new/x y.bin"]
try:
    store.get_object(Bucket="bucket", Key="nothing")
except store.exceptions.NoSuchKey as error:
    assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 404
store.delete_object(Bucket="bucket", Key="new/x y.bin")
""")
        self.assert_seen(trace, seen)
        gets = trace.rows("select file, pos, requested, coalesce(bytes, -errno) as came, layer from events where name = 'object.get' order by ts")
        self.assertEqual({row["layer"] for row in gets}, {"object"})
        self.assertEqual([row["came"] for row in gets], ["-16", "-16", "100000", "-104", "300000", "1000", "-2"])
        self.assertEqual((gets[5]["file"], gets[5]["pos"], gets[5]["requested"]), ("s3://bucket/data/2.bin", "1000", "1000"))
        facts = trace.arguments("name = 'object.get'")
        self.assertEqual([one["attempt"] for one in facts], ["1", "2", "3", "1", "2", "1", "1"])
        self.assertEqual([one.get("status") for one in facts], ["503", "503", "200", None, "200", "206", "404"])
        self.assertTrue(all(int(one["first_byte_ns"]) > 0 for one in facts if "status" in one))
        self.assertEqual(trace.count("file = 's3://bucket/new/x y.bin' and name = 'object.put'"), 1)
        places = {row["place"]: row for row in trace.report()["storage"]}
        self.assertEqual((places["s3://bucket"]["bytes_read"], places["s3://bucket"]["bytes_written"]), (401_000, 70_000))

    def test_transfers_on_threads_in_parts_are_all_there(self):
        self.put(20_000_000)
        trace, seen, _ = self.traced("""
import io, boto3
from boto3.s3.transfer import TransferConfig
store = boto3.client("s3", endpoint_url=ENDPOINT)
parts = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20, max_concurrency=4)
store.download_file("bucket", "data/0.bin", "copy", Config=parts)
assert os.path.getsize("copy") == 20_000_000
store.upload_file("copy", "bucket", "again", Config=parts)
into = io.BytesIO()
store.download_fileobj("bucket", "again", into, Config=parts)
assert into.getvalue() == open("copy", "rb").read()
""")
        self.assert_seen(trace, seen)
        self.assertEqual(trace.count("name = 'object.part'"), 4)
        self.assertEqual(sorted(one["part"] for one in trace.arguments("name = 'object.part'")), ["1", "2", "3", "4"])
        self.assertEqual(trace.count("name = 'object.complete' and class = 'sync'"), 1)
        self.assertGreater(int(trace.value("select count(distinct tid) as n from events where name = 'object.get'")), 1)

    def test_a_body_that_breaks_is_told_with_what_came(self):
        self.put(200_000)
        self.store.tell("fault GET 0.bin 1 cut 50000")
        trace, seen, said = self.traced("""
import boto3
store = boto3.client("s3", endpoint_url=ENDPOINT)
body = store.get_object(Bucket="bucket", Key="data/0.bin")["Body"]
try:
    while body.read(10_000):
        pass
except Exception as error:
    print(type(error).__name__)
""")
        (get,) = trace.rows("select bytes, requested from events where name = 'object.get'")
        self.assertEqual((get["bytes"], get["requested"]), ("50000", "200000"))
        self.assertEqual(trace.arguments("name = 'object.get'")[0]["broken"], "104")
        self.assertIn(said.strip(), ("ResponseStreamingError", "IncompleteReadError"))

    def test_nothing_is_imported_nor_changed_where_nothing_is_recorded(self):
        self.put(10)
        done = self.start(sys.executable, self.write("plain.py", HEAD + """
import sys
assert not [name for name in sys.modules if name.startswith(("boto", "s3fs", "minio"))]
import botocore.endpoint
assert not hasattr(botocore.endpoint.Endpoint._do_get_response, "_dliotrace")
"""))
        self.assertEqual((done.returncode, done.stderr), (0, ""))


@unittest.skipIf(missing("s3fs"), f"without {missing('s3fs')}")
class S3fs(Objects):
    def test_many_requests_of_one_thread_are_there_beside_one_another(self):
        self.put(*[50_000 + number for number in range(12)])
        self.store.tell("fault GET 3.bin 1 503")
        trace, seen, _ = self.traced("""
import s3fs
store = s3fs.S3FileSystem(endpoint_url=ENDPOINT)
names = [f"bucket/data/{number}.bin" for number in range(12)]
found = store.cat(names)
assert {name: len(data) for name, data in found.items()} == {name: 50_000 + number for number, name in enumerate(names)}
with store.open(names[0], "rb", block_size=20_000) as file:
    file.seek(30_000)
    assert file.read(100) == found[names[0]][30_000:30_100]
with store.open("bucket/new.bin", "wb") as file:
    file.write(b"z" * 1000)
""")
        self.assert_seen(trace, seen)
        self.assertGreaterEqual(trace.count("name = 'object.get'"), 14)
        at_once = trace.value("""select max(n) as n from (select count(*) as n from events a join events b
            on a.name = 'object.get' and b.name = 'object.get' and a.tid = b.tid and b.ts <= a.ts and a.ts < b.ts + b.dur
            group by a.ts)""")
        self.assertGreater(int(at_once), 1, "requests in flight on one thread")


@unittest.skipIf(missing("smart_open", "boto3"), f"without {missing('smart_open', 'boto3')}")
class SmartOpen(Objects):
    def test_what_is_read_and_written_is_told(self):
        self.put(300_000)
        trace, seen, _ = self.traced("""
import boto3, smart_open
to = {"client": boto3.client("s3", endpoint_url=ENDPOINT)}
with smart_open.open("s3://bucket/data/0.bin", "rb", transport_params=to) as file:
    data = file.read()
assert len(data) == 300_000
with smart_open.open("s3://bucket/out.bin", "wb", transport_params=to) as file:
    file.write(data)
""")
        self.assert_seen(trace, seen)
        self.assertEqual(trace.count("name = 'object.part' and file = 's3://bucket/out.bin'"), 1)


@unittest.skipIf(missing("minio"), f"without {missing('minio')}")
class Minio(Objects):
    def test_what_is_read_and_written_is_told(self):
        self.put(300_000)
        trace, seen, _ = self.traced("""
import io, minio
store = minio.Minio(ENDPOINT.removeprefix("http://"), os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"],
                    secure=False, region="us-east-1")
answer = store.get_object(bucket_name="bucket", object_name="data/0.bin")
data = answer.read()
answer.close()
assert len(data) == 300_000
store.put_object(bucket_name="bucket", object_name="out.bin", data=io.BytesIO(data), length=len(data))
assert store.stat_object(bucket_name="bucket", object_name="out.bin").size == 300_000
try:
    store.stat_object(bucket_name="bucket", object_name="nothing")
except minio.S3Error as error:
    assert error.code == "NoSuchKey"
""")
        self.assert_seen(trace, seen)
        self.assertEqual(trace.count("name = 'object.head' and errno = 2"), 1)


@unittest.skipIf(missing("s3torchconnector", "torch"), f"without {missing('s3torchconnector', 'torch')}")
class S3TorchConnector(Objects):
    def test_what_the_program_asks_for_is_told(self):
        self.put(300_000, 20_000_000)
        trace, _, _ = self.traced("""
import torch
from s3torchconnector import S3Checkpoint, S3ClientConfig, S3IterableDataset, S3MapDataset, S3ReaderConstructor
how = {"region": "us-east-1", "endpoint": ENDPOINT, "s3client_config": S3ClientConfig(force_path_style=True)}
names = ["s3://bucket/data/0.bin", "s3://bucket/data/1.bin"]
data = S3MapDataset.from_objects(names, **how)
assert [len(data[number].read()) for number in range(2)] == [300_000, 20_000_000]
found = [len(one.read()) for one in S3IterableDataset.from_objects(names[:1], **how)]
assert found == [300_000], found
ranged = S3MapDataset.from_objects(names[:1], reader_constructor=S3ReaderConstructor.range_based(buffer_size=0), **how)[0]
ranged.seek(100_000)
assert len(ranged.read(50_000)) == 50_000
checkpoint = S3Checkpoint(**how)
with checkpoint.writer("s3://bucket/model.pt") as writer:
    torch.save({"weights": torch.zeros(100_000)}, writer)
with checkpoint.reader("s3://bucket/model.pt") as reader:
    assert torch.load(reader, weights_only=True)["weights"].shape == (100_000,)
try:
    S3MapDataset.from_objects(["s3://bucket/nothing"], **how)[0].read()
except Exception as error:
    assert "does not exist" in str(error), error
""")
        asked = trace.rows("select file, pos, coalesce(bytes, -errno) as came from events where name = 'object.get' order by ts")
        whole = [(row["file"].rpartition("/")[2], row["pos"], row["came"]) for row in asked]
        self.assertEqual(whole[:3], [("0.bin", "0", "300000"), ("1.bin", "0", "20000000"), ("0.bin", "0", "300000")])
        self.assertEqual(whole[3], ("0.bin", "100000", "50000"))
        self.assertEqual(whole[-1][0], "nothing")
        self.assertLess(int(whole[-1][2]), 0)
        written = trace.rows("select file, bytes from events where name = 'object.put'")
        self.assertEqual([row["file"] for row in written], ["s3://bucket/model.pt"])
        read_back = sum(int(came) for name, _, came in whole if name == "model.pt")
        self.assertGreaterEqual(int(written[0]["bytes"]), 400_000)
        self.assertGreaterEqual(read_back, 400_000)


if __name__ == "__main__":
    unittest.main()
