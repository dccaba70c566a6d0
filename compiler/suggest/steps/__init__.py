"""The step of a spec with other rules, written from the step of its own graph, without another graph.

`origin.py` takes a step apart: what belongs to each weight, and what to each clone. `written.py` puts it
together again by another plan: reads, sums of gradients (`sums.py`) and updates of each weight are written
where the plan has them. All else stays as it is. The tests compare written steps with those of graphs that
are built.
"""
