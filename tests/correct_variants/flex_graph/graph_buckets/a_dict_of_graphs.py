"""Keeps graph and output by size, and searches the sizes one after the other."""


class BucketedGraphs:
    def __init__(self, forward, inputs, sizes):
        self.inputs, self.captured = inputs, {}
        for size in sorted({*sizes}, reverse=True):
            forward(inputs[:size])
            graph = current().graph()
            with graph.capture():
                output = forward(inputs[:size])
            self.captured[size] = graph, output

    def run(self, rows):
        fitting = [size for size in self.captured if size >= len(rows)]
        if not fitting or not len(rows):
            raise ValueError("no graph holds these rows")
        graph, output = self.captured[min(fitting)]
        self.inputs[: len(rows)] = rows
        graph.replay()
        return output[: len(rows)].clone()
