"""What a decode step costs: `python -m solutions.flex_graph.bench` (its code is in measure/)."""

from .measure.bench import main

if __name__ == "__main__":
    main()
