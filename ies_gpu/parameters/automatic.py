"""The automatic choice of bandwidth, intrinsic dimension and number of coordinates, step by step."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

from ..backend import step
from ..backend.array import Array, few_on_host, sample_rows
from ..choice.criterion import stray_coordinates
from ..choice.search import SearchResult
from ..embedding.graph import essential_columns
from ..findings import DisconnectedGraphError, Finding, Judged, finding_of, grave, light, note, option, refusal, warning
from ..options import LOCAL, Options, is_auto, is_found, is_local
from ..run.run import Fit, HeldLog, Inputs, Log, Run, checked_points
from .dimension import COPIES, SAMPLE_SIZE, THRESHOLD, DimensionEstimate, local_pca_dimension, times_each
from .distances import Distances, degree_bandwidth, sampled_distances
from .judgement import CLOSE, CROWDED
from .scan import FACTORS, SHARE, UNFOLDED, Scan, scan, sizes_to_compare, try_local_bandwidth
from .trial import Trial, trial

ONE_COLUMN = 0.999  # share of the variance; the strip of D1, six times as long as wide, has 0.975 in one column
CARRIED = (1.03, 0.03)  # what may be lost more than the best does, as a factor and of a direction
WIDE_SETS = 300  # columns from which on it is said that fewer would be quicker
MOST = 5  # dimensions that points can show; the search for more would only take long
NEARLY_ALL = 1.25  # times the sample's size: up to so many points, all are tried
THIN = 0.35  # of the spectrum at twice the scale: below it, the last dimension is hardly there
Seen = tuple[Distances, float, DimensionEstimate | None]


class Found(NamedTuple):
    """The options with what was "auto" found, what led to them as plain values, and the steps computed on the way."""

    options: Options
    report: dict[str, Any]
    fit: Fit | None = None
    search: SearchResult | None = None


def packed(found: Found) -> dict[str, Any]:
    """Return what was found for a checkpoint; the steps are saved one by one."""
    names = ("bandwidth", "intrinsic_dim", "subset_size", "disconnected", "self_loops")
    return {name: getattr(found.options, name) for name in names} | {"report": found.report}


def unpacked(content: dict[str, Any], load: Any, given: Inputs, options: Options) -> Found:
    """Return what a checkpoint says was found."""
    return Found(report=content.pop("report"), options=replace(options, **content))


@step("automatic", composite=True, pack=packed, unpack=unpacked)
def find_parameters(given: Inputs, options: Options, do: Run) -> Found:
    """Find the parameters that are "auto", and the set that goes with them."""
    return calibrate(do, do(checked_points, given.value, options, do.backend))


def calibrate(
    run: Run, X: Array, sample_size: int = SAMPLE_SIZE, *, seen: Seen | None = None, factors: Sequence[float] = FACTORS
) -> Found:
    """Find the parameters for checked points (n, D) on the device, of which at most ``sample_size`` are tried."""
    options, backend = run.options, run.backend
    whole = len(X) <= NEARLY_ALL * sample_size
    rows = sample_rows(len(X), len(X) if whole else sample_size, options.random_state)
    Z = X if whole else backend.retried("dimension", lambda: X[backend.asarray(rows)])
    columns, X = Z, backend.retried("dimension", lambda: essential_columns(X))
    if X.shape[1] > WIDE_SETS:
        text = f"X has {columns.shape[1]} columns, and few of them could be left out without loss"
        run.log.keep([note("columns.many", text, "the first 20 or so principal components would take far less time")])
    Z = X if whole else X[backend.asarray(rows)]
    distances, centre, dimension = seen = seen or run(sample_distances, Z, options)
    d = options.intrinsic_dim if dimension is None else bounded(dimension, options, run.log)
    hints = check_duplicates(distances) + ([] if dimension is None else check_columns(columns, d, run))
    carried = None
    if is_found(options.bandwidth):
        tried = compare_bandwidths(run, Z, [centre * factor for factor in factors], centre, distances, d, whole)
        chosen, carried = (tried.best(tried.size), None) if whole else refit_on_all_points(X, tried, d, run, len(Z))
    else:
        chosen = trial(X, options.bandwidth, d, run, HeldLog(run.log), options.disconnected)
        sizes, local = sizes_to_compare(d, options), is_local(options.bandwidth)
        tried = Scan((chosen,), {}, chosen.bandwidth, sizes, is_local=local)
    s = tried.size
    if (other := without_loops(run, X, chosen, s, sample_size, seen)) is not None:
        return other
    search = chosen.search(s)
    chosen.tell(s, run.log)
    run.audit.update(chosen.run.audit)
    report, reasons = describe(tried, dimension, d, chosen, options.automatic, hints)
    run.log.keep(reasons)
    known, more = Fit(chosen.graph, chosen.embedding, chosen.tangents), {"sample_size": len(Z), "columns": Z.shape[1]}
    return Found(replace(chosen.run.options, subset_size=s), report | more | {"carried": carried}, known, search)


def without_loops(run: Run, X: Array, chosen: Trial, s: int, sample_size: int, seen: Seen) -> Found | None:
    """Return what is found without self-loops, where many coordinates are stray with them; None if that is no better.

    With a loop, a walk stays at a point that hangs by a thread. Only the best bandwidth is tried again.
    """
    stray, limit = len(stray_coordinates(chosen.embedding.vectors)), CROWDED * len(chosen.embedding.eigenvalues)
    if stray <= limit or not run.options.self_loops or isinstance(chosen.run.options.bandwidth, str):
        return None
    log, whole = HeldLog(run.log), len(X) <= NEARLY_ALL * sample_size
    factors = (chosen.bandwidth / seen[1],) if whole else FACTORS
    bare = run.apart(replace(run.options, self_loops=False), log, run.audit)
    found = calibrate(bare, X, sample_size, seen=seen, factors=factors)
    assert found.fit is not None
    left = len(stray_coordinates(found.fit.embedding.vectors))
    if 2 * left > stray or found.report["lost"] > chosen.lost(s) + UNFOLDED:
        return None
    for finding in log.findings:
        run.log.warn(finding)
    text = f"{stray} coordinates are concentrated on a few stray points, {left} with {option('self_loops', False)}"
    run.log.keep([note("stray.without_loops", f"{text}, which was taken")])
    return found


def part_policies(options: Options) -> list[str]:
    """Return ways with a graph in parts: points are left out only where they would otherwise end the run."""
    return ["raise", "most"] if options.disconnected == "most" else [options.disconnected]


def compare_bandwidths(
    run: Run, Z: Array, bandwidths: list[float], centre: float, distances: Distances, d: int, whole: bool
) -> Scan:
    """Return the trials at fixed bandwidths or, where the density is uneven, the one that follows it if that is better.

    ``whole`` says that Z is not a sample. The first way with a graph in parts is taken that leaves two to compare.
    """
    ways = part_policies(run.options) if whole else ["largest"]  # of a sample, parts say little
    failure: DisconnectedGraphError | None = None
    fixed: Scan | None = None
    for way in ways:
        start = Scan((), {}, centre, sizes_to_compare(d, run.options), is_sample=not whole)
        try:
            found = run(scan, run, Z, start, bandwidths, distances, d, way)
            if found.may_miss_the_best:
                found = run(scan, run, Z, found, found.between(found.size), distances, d, way)
        except DisconnectedGraphError as error:  # of a thin trial, or of all points, which may have more parts
            failure = error
            continue
        fixed = found
        if not fixed.is_alone:
            break
    if len(bandwidths) > 1 or fixed is None:
        fixed = try_local_bandwidth(run, Z, centre, distances, d, ways[-1], fixed, failure)
    if fixed is not None:
        return fixed
    assert failure is not None
    if failure.parts:
        raise failure
    why = "" if (finding := finding_of(failure)) is None else f": {finding.text}"
    text = f"no bandwidth keeps the points together without joining nearly all pairs{why}"
    # it was never given, so no advice on it helps
    advice = f"try {option('n_neighbors', 15)}, or fewer columns, such as the first 20 principal components"
    raise refusal("graph.no_bandwidth", text, advice, DisconnectedGraphError)


@step("dimension")
def sample_distances(Z: Array, options: Options) -> Seen:
    """Return distances from some points, the bandwidth with 6% neighbours and, if wanted, the dimension seen there."""
    distances = sampled_distances(Z, random_state=options.random_state)
    wanted = is_auto(options.intrinsic_dim)
    return distances, degree_bandwidth(distances), local_pca_dimension(Z, distances, None) if wanted else None


def bounded(dimension: DimensionEstimate, options: Options, log: Log) -> int:
    """Return the estimate, but no more than the coordinates asked for."""
    s, m = options.subset_size, options.n_components
    most = min(m, MOST + 1) if is_auto(s) else min(s, m)
    if dimension.value > most:
        text = f"the points seem to have {dimension.value} dimensions, but {option('subset_size')} and "
        text += f"{option('n_components')} leave room for {most}; {option('intrinsic_dim', most)} is used"
        log.warn(warning("dimension.bounded", text, f"raise them, or set {option('intrinsic_dim')}"))
    return min(dimension.value, most)


def check_duplicates(distances: Distances) -> list[Finding]:
    """Return a reason to doubt if points occur several times: copies predict each other, and hide their neighbours."""
    times = times_each(distances)
    if times < COPIES:
        return []
    text = f"a point has {times - 1:.1f} exact copies on average, and copies explain each other; drop them"
    return [grave("choice.copies", text)]


def check_columns(Z: Array, d: int, run: Run) -> list[Finding]:
    """Return a reason to doubt where points are a line along one column, and warn: more often that is another unit."""
    variance = run.backend.to_host(few_on_host(Z).var(axis=0))
    widest = int(variance.argmax())
    if d > 1 or len(variance) == 1 or variance[widest] <= ONE_COLUMN * variance.sum():
        return []
    text = f"column {widest} of X has nearly all of the variance, so the points look like a line along it"
    advice = "if the columns are in different units, scale them first, for example with scikit-learn's StandardScaler"
    run.log.warn(warning("columns.units", text, advice))
    return [grave("choice.one_column", "the points look like a line along one column, which may be in another unit")]


def refit_on_all_points(X: Array, scanned: Scan, d: int, run: Run, N: int) -> tuple[Trial, dict[str, Any]]:
    """Return the trial on all n points at a bandwidth carried over from a scan of N of them, and what was tried.

    The first is taken that keeps the graph together and whose set loses hardly more of all points (3%, or .03 of a
    direction) than the best of the scan lost of its own: the smallest such bandwidth of the scan, since more points
    cost more, but first that times ``(n / N)^(-1/(d+4))``, which balances bias and variance of a kernel estimate, and
    one half way, since noise in many dimensions keeps points apart; and last the best. Local ones need no carrying.
    """
    s = scanned.size
    best = scanned.best(s)
    least, enough = min(t.lost(s) for t in scanned.trials), SHARE * best.share
    wanted = max(CARRIED[0] * least, CARRIED[1] + least)
    small = min(t.bandwidth for t in scanned.trials if t.lost(s) <= wanted)
    shrunk = small * (len(X) / N) ** (-1 / (d + 4))
    steps = (LOCAL,) if scanned.is_local else dict.fromkeys((shrunk, (shrunk * small) ** 0.5, small, best.bandwidth))

    def holds(t: Trial) -> bool:
        return t.lost(s) <= wanted and t.share >= enough

    tried: list[Trial] = []
    failure: DisconnectedGraphError | None = None
    for way, eps in product(part_policies(run.options), steps):
        if tried and (holds(tried[-1]) or way != tried[0].run.options.disconnected):
            break
        try:
            tried.append(trial(X, eps, d, run, HeldLog(run.log), way))
        except DisconnectedGraphError as error:
            failure = error
    if not tried:
        assert failure is not None
        raise failure
    chosen = min(tried, key=lambda t: (t.share < enough, t.lost(s)))
    return chosen, {"sample_lost": best.lost(s), "tried": [t.row(s) for t in tried], "holds": holds(chosen)}


def describe(
    tried: Scan, dimension: DimensionEstimate | None, d: int, chosen: Trial, asked: list[str], hints: list[Finding]
) -> tuple[dict[str, Any], list[Finding]]:
    """Return everything the choice is based on, as plain values, and what speaks against its values."""
    s = tried.size
    values = {"bandwidth": LOCAL if tried.is_local else chosen.bandwidth, "intrinsic_dim": d, "subset_size": s}
    fixed, local = (tried.rival, tried) if tried.is_local else (tried, tried.rival)
    judged = {"bandwidth": tried.judge_bandwidth()} if "bandwidth" in asked else {}
    if dimension is not None:
        judged["intrinsic_dim"] = judge_dimension(dimension)
    if "subset_size" in asked:
        judged["subset_size"] = tried.judge_size()
    reasons = [doubt for each in judged.values() for doubt in each.doubts] + hints
    compared = sorted(set.intersection(*(t.sizes() for t in tried.trials)))
    report = {
        "chosen": {name: value for name, value in values.items() if name in asked},
        **values,
        "bandwidth": chosen.bandwidth,
        "fvu": chosen.fvu(s),
        "lost": chosen.lost(s),
        "scan": [] if fixed is None else [t.row(s) for t in fixed.trials],
        "local": None if local is None else local.trials[0].row(s) | {"taken": tried.is_local},
        "left_out": [{"bandwidth": eps, "reason": reason} for eps, reason in sorted((fixed or tried).left_out.items())],
        "degree_bandwidth": tried.centre if "bandwidth" in asked else None,
        "spectrum": None if dimension is None else dimension.curve.tolist(),
        "spectrum_bandwidth": None if dimension is None else dimension.bandwidth,
        "sizes": [{"subset_size": k} | tried.best(k).row(k) for k in compared],
        "confidence": {name: {"level": each.level, "facts": each.facts} for name, each in judged.items()},
    }
    return report, reasons


def judge_dimension(dimension: DimensionEstimate) -> Judged:
    """Return how sure the dimension is: what is nearly as good as the one found."""
    d, found, doubts = dimension.value, dimension.confidence, []
    curve, wider = [*dimension.curve, 0.0], [*dimension.wider, 0.0]
    if found.level == "low":
        text = "no direction stands out from the noise around a point, so the dimension is a guess"
        doubts.append(grave("dimension.guess", text))
    if d > MOST:
        doubts.append(grave("dimension.many", f"{d} dimensions are more than points like these can show"))
    if d > 1 and wider[d - 1] < THIN:
        text = f"the last of {d} dimensions is thin: at twice the scale it is hardly there"
        doubts.append(light("dimension.last", text))
    elif d > 1 and curve[d - 1] < THRESHOLD + CLOSE:
        doubts.append(light("dimension.close", f"the dimension may be {d - 1} instead of {d}"))
    if THRESHOLD - CLOSE < curve[min(d, len(curve) - 1)] < THRESHOLD:
        doubts.append(light("dimension.close", f"the dimension may be {d + 1} instead of {d}"))
    return found._replace(doubts=tuple(doubts))
