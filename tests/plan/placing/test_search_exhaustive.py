"""The search against every sequence of choices, tried one by one."""

import random
from dataclasses import replace

import pytest

from ssinghal.plan.placement import DRAM, L1
from ssinghal.plan.placing.search import Found, Limits, NoPlacement, search
from tests.plan.placing.exhaustive import Exhaustive
from tests.plan.placing.worlds import BOARD, UNIT, Arithmetic, Wild, form, infos_of, random_graph

WIDE = 10**6


def limits_of(rng, graph, least, most):
    """Limits at multiples of a tile per core, or a byte less."""
    return Limits(
        rng.randint(least, most) * UNIT - rng.choice((0, 0, 1)),
        rng.choice((0, UNIT)),
        {rng.randrange(len(graph)): UNIT} if rng.random() < 0.3 else {},
        frozenset({rng.randrange(len(graph))}) if rng.random() < 0.2 else frozenset(),
    )


def arithmetic(seed):
    """A graph whose calls cost what bytes cost; limits from loose to tight."""
    rng = random.Random(seed)
    graph = random_graph(rng, rng.randint(2, 7))
    infos, units = infos_of(rng, graph)
    graph = [replace(node, least_bytes=infos[node.number].weights) for node in graph]
    calls = Arithmetic(infos, memories=(DRAM, L1, "height") if len(graph) < 5 else (DRAM, L1))
    return graph, {0: form(units)}, calls, limits_of(rng, graph, 3, 10)


def wild(seed):
    """A graph whose calls cost anything: it makes no sense, but the optimum is one all the same."""
    rng = random.Random(seed)
    graph = random_graph(rng, rng.randint(2, 8))
    calls = Wild(seed, 6 if len(graph) < 7 else 4)
    return graph, {0: calls.a_form(rng)}, calls, limits_of(rng, graph, 4, 14)


def compare(graph, inputs, calls, limits, spills):
    best = Exhaustive(graph, calls, BOARD, limits, spills).run(inputs)
    result = search(graph, inputs, calls, BOARD, limits, beam=WIDE)
    if best.cost is None:
        assert isinstance(result, NoPlacement)
        assert result.exact
        assert result.number == graph[best.furthest].number
    else:
        assert isinstance(result, Found), str(result)
        assert result.exact
        assert result.cost == best.cost == result.bound
    return best, result


# Those out of the row need spills before a view, and before a read that is not the next one.
@pytest.mark.parametrize("seed", [*range(150), 1395, 3307])
def test_the_same_optimum_where_calls_cost_what_bytes_cost(seed):
    compare(*arithmetic(seed), spills=True)


@pytest.mark.parametrize("seed", range(150))
def test_the_same_optimum_where_calls_cost_anything(seed):
    compare(*wild(seed), spills=False)


@pytest.mark.parametrize("make", [arithmetic, wild])
def test_a_narrow_beam_states_a_bound_that_holds(make):
    cut = 0
    for seed in range(30):
        graph, inputs, calls, limits = make(seed)
        best = search(graph, inputs, calls, BOARD, limits, beam=WIDE)
        for beam in (1, 2, 3, 4):
            result = search(graph, inputs, calls, BOARD, limits, beam=beam)
            if isinstance(best, NoPlacement):
                assert isinstance(result, NoPlacement)
                assert result.number <= best.number
            elif isinstance(result, Found):
                assert result.bound <= best.cost <= result.cost
                assert not result.exact or result.bound == best.cost == result.cost
                cut += not result.exact
            else:
                assert not result.exact
    assert cut >= 10
