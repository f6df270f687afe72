"""Nested dissection: the order in which a sparse symmetric matrix is factorised with few new entries.

A separator is a set of nodes without which a graph falls into two sides that no edge joins. Both sides come first, the
separator last, and each side is cut in turn until it is a small block. A separator is first sought in the graph of
large groups of nodes, as a level of breadth first search, and improved there and on the graphs of smaller and smaller
groups by the moves of Fiduccia and Mattheyses.
"""

import numpy as np

from .tasks import compiled

FEWEST = 60  # groups in which a separator is first sought
SEEDS = 4  # of the search for it
UNEVEN = 0.62  # of all rows may be on one side, at most
LOPSIDED = 0.02  # of the difference of both sides counts like rows of the separator
PATIENCE = 60  # moves that may follow the best one before the search ends
PASSES = 3  # over all nodes, on each graph
MOST = 50  # members of the separator that are compared, for each node and edge: a separator may be half of a graph
NEITHER = 2  # the mark of the separator; the sides are 0 and 1


@compiled()
def joined(indptr, indices, sizes, nodes, m, place, labels):
    """The graph of groups of nodes, and the rows in each; a node has its place among ``nodes``, the others have -1."""
    n_groups, end, room = labels[m - 1] + 1, 0, 0
    starts, rows, seen = np.zeros(n_groups + 1, np.int64), np.zeros(n_groups), np.zeros(n_groups, np.int64)
    for k in range(m):
        room += indptr[nodes[k] + 1] - indptr[nodes[k]]
    columns = np.empty(room, np.int64)
    for k in range(m):
        own = labels[k]
        rows[own] += sizes[nodes[k]]
        for p in range(indptr[nodes[k]], indptr[nodes[k] + 1]):
            q = place[indices[p]]
            if q >= 0 and labels[q] != own and seen[labels[q]] != own + 1:
                seen[labels[q]], columns[end] = own + 1, labels[q]
                end += 1
        starts[own + 1] = end
    return starts, columns, rows


@compiled()
def searched(starts, columns, queue, depths):
    """Fill in the nodes in the order of breadth first search from the last one, and their depths."""
    n, head, tail, other = len(queue), 0, 1, 0
    for i in range(n):
        depths[i] = -1
    queue[0] = queue[n - 1]
    depths[queue[0]] = 0
    while head < n:
        if head == tail:  # another part of the graph
            while depths[other] >= 0:
                other += 1
            queue[tail], depths[other] = other, depths[queue[head - 1]] + 1
            tail += 1
        i = queue[head]
        head += 1
        for p in range(starts[i], starts[i + 1]):
            j = columns[p]
            if depths[j] < 0:
                queue[tail], depths[j] = j, depths[i] + 1
                tail += 1


@compiled()
def cut(rows, queue, depths, sides):
    """Fill in the sides below and above the level that separates them with the fewest rows."""
    n, below, total, best, level = len(rows), 0.0, 0.0, np.inf, 0
    at = np.zeros(depths[queue[n - 1]] + 1)
    for i in range(n):
        at[depths[i]] += rows[i]
        total += rows[i]
    for k in range(len(at)):
        above = total - below - at[k]
        cost = at[k] + LOPSIDED * abs(above - below) + (total if max(below, above) > UNEVEN * total else 0.0)
        if cost < best:
            best, level = cost, k
        below += at[k]
    for i in range(n):
        sides[i] = 0 if depths[i] < level else 1 if depths[i] > level else NEITHER


@compiled()
def gain(starts, columns, rows, sides, i, side):
    """Rows that the separator loses when node i leaves it for a side, and its neighbours on the other come in."""
    gained = rows[i]
    for p in range(starts[i], starts[i + 1]):
        if sides[columns[p]] == 1 - side:
            gained -= rows[columns[p]]
    return gained


@compiled()
def improve(starts, columns, rows, sides):
    """Move nodes out of the separator, the best first, also where it grows for a while; return what it costs."""
    n, sums = len(rows), np.zeros(3)
    for i in range(n):
        sums[sides[i]] += rows[i]
    total, moved, place = sums[0] + sums[1] + sums[2], np.zeros(n, np.int8), np.empty(n, np.int64)
    members = np.empty(n, np.int64)
    gains, undo, former = np.empty(2 * n), np.empty(5 * n, np.int64), np.empty(5 * n, np.int8)
    cost, compared = sums[2] + LOPSIDED * abs(sums[0] - sums[1]), 0
    for turn in range(1, PASSES + 1):
        m = 0
        for i in range(n):
            if sides[i] == NEITHER:
                place[i], members[m] = m, i
                for a in range(2):
                    gains[2 * i + a] = gain(starts, columns, rows, sides, i, a)
                m += 1
        before, done, kept, idle = cost, 0, 0, 0
        while m > 0 and idle < PATIENCE and done < 4 * n and compared < MOST * (n + len(columns)):
            chosen, side, most = -1, 0, -np.inf
            for q in range(m):
                i = members[q]
                for a in range(2):
                    if moved[i] == turn or (sums[a] + rows[i] > UNEVEN * total and sums[a] >= sums[1 - a]):
                        continue
                    worth = gains[2 * i + a] - (LOPSIDED * rows[i] if sums[a] > sums[1 - a] else 0.0)
                    if worth > most:
                        chosen, side, most = i, a, worth
                compared += 1
                if chosen == i and most >= (1 - LOPSIDED) * rows[i]:  # it draws nobody in: others are no better
                    break
            if chosen < 0:
                break
            moved[chosen], sides[chosen], undo[done], former[done] = turn, side, chosen, NEITHER
            done += 1
            sums[2] -= rows[chosen]
            sums[side] += rows[chosen]
            m -= 1
            members[place[chosen]], place[members[m]] = members[m], place[chosen]
            for p in range(starts[chosen], starts[chosen + 1]):
                j = columns[p]
                if sides[j] == NEITHER:  # to go to the other side would now draw the chosen node in again
                    gains[2 * j + 1 - side] -= rows[chosen]
                elif sides[j] != side:
                    undo[done], former[done] = j, sides[j]
                    done += 1
                    sides[j], place[j], members[m] = NEITHER, m, j
                    m += 1
                    sums[1 - side] -= rows[j]
                    sums[2] += rows[j]
                    for a in range(2):
                        gains[2 * j + a] = gain(starts, columns, rows, sides, j, a)
                    for q in range(starts[j], starts[j + 1]):  # for those beside it, there is one less to draw in
                        if sides[columns[q]] == NEITHER:
                            gains[2 * columns[q] + side] += rows[j]
            now = sums[2] + LOPSIDED * abs(sums[0] - sums[1])
            idle += 1
            if now < cost - 1e-6 * total:
                cost, kept, idle = now, done, 0
        for q in range(done - 1, kept - 1, -1):
            sums[sides[undo[q]]] -= rows[undo[q]]
            sums[former[q]] += rows[undo[q]]
            sides[undo[q]] = former[q]
        if not cost < before:
            break
    return cost if sums[0] > 0 and sums[1] > 0 else np.inf


@compiled()
def divide(indptr, indices, sizes, groups, nodes, m, place, labels, of_nodes):
    """Fill in the sides of m nodes, found in the graph of their largest groups and improved down to their own."""
    found, n_groups = False, 0
    for level in range(len(groups)):
        labels[0] = 0
        for k in range(1, m):
            labels[k] = labels[k - 1] + (groups[level, nodes[k]] != groups[level, nodes[k - 1]])
        if labels[m - 1] + 1 < min(FEWEST, m) or labels[m - 1] + 1 == n_groups:  # too few, or the same again
            continue
        starts, columns, rows = joined(indptr, indices, sizes, nodes, m, place, labels)
        n_groups, best = len(rows), np.inf
        queue, depths = np.zeros(n_groups, np.int64), np.empty(n_groups, np.int64)
        sides = np.empty(n_groups, np.int8)
        for attempt in range(1 if found else SEEDS):
            trial = np.empty(n_groups, np.int8)
            if found:
                for k in range(m):
                    trial[labels[k]] = of_nodes[k]
            else:
                searched(starts, columns, queue, depths)
                cut(rows, queue, depths, trial)
            cost = improve(starts, columns, rows, trial)
            if cost < best or attempt == 0:
                sides, best = trial, cost
        found = True
        for k in range(m):
            of_nodes[k] = sides[labels[k]]


@compiled(entry=True)
def dissect(indptr, indices, sizes, groups, leaf):
    """Return an order of the nodes, and the kind of the block that begins at each place.

    That is 1 for one that is not cut further, 2 for a separator, behind all blocks of both its sides, and 0 elsewhere.
    Nodes stand for ``sizes`` rows; blocks of up to ``leaf`` rows are not cut. ``groups`` (levels, n) has the number of
    the group of each node, rising, the largest groups first and each node for itself last.
    """
    n, waiting = len(sizes), 1
    order, nodes = np.empty(n, np.int64), np.empty(n, np.int64)
    place, labels = np.empty(n, np.int64), np.empty(n, np.int64)
    kinds, of_nodes = np.zeros(n, np.int8), np.empty(n, np.int8)
    inside, begins = np.empty(3, np.int64), np.empty(3, np.int64)
    firsts, lasts = np.empty(n + 1, np.int64), np.empty(n + 1, np.int64)
    firsts[0], lasts[0] = 0, n
    for i in range(n):
        order[i], place[i] = i, -1
    while waiting > 0:
        waiting -= 1
        first, last, total = firsts[waiting], lasts[waiting], 0.0
        m = last - first
        for k in range(m):
            nodes[k], of_nodes[k] = order[first + k], 0
            place[nodes[k]] = k
            total += sizes[nodes[k]]
        kinds[first] = 1
        if total > leaf:
            divide(indptr, indices, sizes, groups, nodes, m, place, labels, of_nodes)
        for side in range(3):
            inside[side] = 0
        for k in range(m):
            place[nodes[k]] = -1
            inside[of_nodes[k]] += 1
        if inside[2] == 0 and inside[1] > 1:  # a graph in parts: every cut has a separator
            k = 0
            while of_nodes[k] != 1:
                k += 1
            of_nodes[k], inside[1], inside[2] = NEITHER, inside[1] - 1, 1
        if inside[0] > 0 and inside[1] > 0 and inside[2] > 0:
            begins[0], begins[1], begins[2] = first, first + inside[0], last - inside[2]
            kinds[begins[2]] = 2
            for side in range(2):
                firsts[waiting], lasts[waiting] = begins[side], begins[side + 1]
                waiting += 1
            for k in range(m):
                order[begins[of_nodes[k]]] = nodes[k]
                begins[of_nodes[k]] += 1
    return order, kinds
