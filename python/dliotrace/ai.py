"""Names for the activities of a training run, in categories that reports use.

    from dliotrace import ai

    with ai.compute.forward(epoch=1, step=3):
        ...

    @ai.data.preprocess
    def decode(sample): ...

    for batch in traced_iter(loader, ai.data.fetch):
        ...

Each name is a span: a context manager, a decorator, and a source of spans with metadata. ``dlio bench`` uses the same
categories and names, so a real training run can be compared with a simulated one.
"""

try:
    from dliotrace._engine import Span
except ImportError:
    from dliotrace._absent import Span


class Category:
    """Spans of one category; ``compute("attention")`` creates one with another name."""

    def __init__(self, category, **names):
        self.category = category
        for attribute, name in names.items():
            setattr(self, attribute, Span(name, category))

    def __call__(self, name, /, **meta):
        return Span(name, self.category, **meta)

    def __repr__(self):
        return f"<spans of category {self.category}>"


compute = Category("compute", compute="compute", forward="forward", backward="backward", step="optimizer.step")
data = Category("data", fetch="fetch", item="item", preprocess="preprocess", start="loader.start")
comm = Category(
    "comm", all_reduce="all_reduce", all_gather="all_gather", all_to_all="all_to_all", reduce_scatter="reduce_scatter",
    broadcast="broadcast", barrier="barrier", send="send", receive="receive",
)
device = Category("device", to_device="to_device", to_host="to_host", synchronize="synchronize")
checkpoint = Category("checkpoint", save="checkpoint.save", load="checkpoint.load")
pipeline = Category("pipeline", epoch="epoch", train="train", evaluate="evaluate", test="test")
