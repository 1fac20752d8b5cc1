#!/usr/bin/env python3
"""Reads traces with Perfetto's own generated classes: every packet, to the last byte.

    decode.py TRACE...

Our encoder is handwritten, so an independent decoder has to confirm its output: no field that Perfetto does
not know, no packed packet within a packed one, every number of a string given before it is used, every slice ended, and the
number of events that the end of the file promises.
"""

import os
import pathlib
import sys
import zlib
from collections import Counter

VENV = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "dlio-venv"
if not sys.prefix.startswith(str(VENV)):
    python = VENV / "bin" / "python"
    if not python.exists():
        sys.exit(f"{python} is missing: run {pathlib.Path(__file__).parent / 'setup.sh'} first")
    os.execv(python, [str(python), *sys.argv])

from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: E402
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent  # noqa: E402

TABLES = ("event_names", "event_categories", "debug_annotation_names", "debug_annotation_string_values")


def packets(trace):
    """Returns all packets, with packed ones expanded."""
    outer = Trace.FromString(trace.read_bytes())
    for packet in outer.packet:
        if not packet.compressed_packets:
            yield packet
            continue
        inner = Trace.FromString(zlib.decompress(packet.compressed_packets))
        for packet in inner.packet:
            assert not packet.compressed_packets, "a packed packet within a packed one"
            yield packet


def decode(trace):
    known = {}
    defaults = {}
    open_slices = Counter()
    counted = Counter()
    promised = 0
    for packet in packets(trace):
        assert not UnknownFieldSet(packet), f"unknown fields in {packet}"
        sequence = packet.trusted_packet_sequence_id
        assert sequence, f"a packet without a sequence: {packet}"
        if packet.sequence_flags & 1:
            known[sequence] = {table: set() for table in TABLES}
        if packet.HasField("trace_packet_defaults"):
            defaults[sequence] = packet.trace_packet_defaults.track_event_defaults.track_uuid
        for table in TABLES:
            known[sequence][table].update(entry.iid for entry in getattr(packet.interned_data, table))
        for attribute in packet.trace_attributes.attribute:
            if attribute.key.endswith(".complete"):
                promised += attribute.long_value
        if packet.HasField("track_event"):
            event = packet.track_event
            check_event(event, known[sequence])
            on = (sequence, event.track_uuid or defaults[sequence])
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                open_slices[on] += 1
            elif event.type == TrackEvent.TYPE_SLICE_END:
                open_slices[on] -= 1
                assert open_slices[on] >= 0, "an end without a beginning"
            # Derived events have no interned name.
            counted[event.type] += bool(event.name_iid)
    assert not +open_slices, "a slice without an end"
    events = sum(count for kind, count in counted.items() if kind != TrackEvent.TYPE_SLICE_END)
    assert events == promised, f"{events} events, {promised} promised"
    return events


def check_event(event, known):
    if event.name_iid:
        assert event.name_iid in known["event_names"], f"name {event.name_iid} was never given"
    for iid in event.category_iids:
        assert iid in known["event_categories"], f"category {iid} was never given"
    for annotation in event.debug_annotations:
        # Derived events contain their keys as text.
        is_given = annotation.HasField("name") or annotation.name_iid in known["debug_annotation_names"]
        assert is_given, f"key {annotation.name_iid} was never given"
        if annotation.HasField("string_value_iid"):
            assert annotation.string_value_iid in known["debug_annotation_string_values"], "a text that was never given"


def main():
    for trace in map(pathlib.Path, sys.argv[1:]):
        try:
            print(f"{trace}: {decode(trace)} events, every packet read")
        except AssertionError as error:
            sys.exit(f"{trace}: {error}")


if __name__ == "__main__":
    main()
