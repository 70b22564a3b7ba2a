package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
)

// A batch is divided by partition. The records of a partition are appended in order, many at a time; different
// partitions are independent and are appended to at the same time.
const (
	// appendBytes bounds the records of one append of a batch, except of the last one, which may have half as many
	// again. An append waits for a sync or two, so twice as many bytes take less than twice as long.
	appendBytes = 2 << 20

	// lessBytes is appendBytes for a log that has returned ErrTooLarge for more. A NATS server accepts it by default.
	lessBytes = 512 << 10

	// appendsAtOnce bounds the partitions to which a batch is appended at the same time.
	appendsAtOnce = 16

	// putsAtOnce bounds the entries of one append that may be refused, so that several concurrent callers do
	// not exceed the refusals that a partition remembers.
	putsAtOnce = keepRefusals / 4
)

// A group is the records of a batch for one partition, in order.
type group struct {
	partition int
	records   [][]byte
	slab      codec.Slab // has them
	at        []int      // their indexes in the batch
	done      int        // how many of them are durable
	err       error      // why the next record is not durable
}

// groups divides records by partition. A group whose err is set cannot be sent.
func (g *gateway) groups(ctx context.Context, location int, rs []codec.Record) (all []*group) {
	first := g.layout.first[location]
	by := make([]*group, g.layout.first[location+1]-first)
	for i := range rs {
		p := g.ofRecord(location, &rs[i])
		part := by[p-first]
		if part == nil {
			part = &group{partition: p, at: make([]int, 0, (len(rs)-i)/len(by)+1)}
			by[p-first] = part
			all = append(all, part)
		}
		part.at = append(part.at, i)
	}
	known := true
	for _, part := range all {
		known = known && g.partitions[part.partition].numbers.Load() != nil
	}
	prepare := func(part *group) {
		if part.err = g.agree(ctx, part.partition, rs[0].Op); part.err != nil {
			return
		}
		part.records = make([][]byte, len(part.at))
		for i, at := range part.at {
			dst := part.slab.Begin(rs[at].Size(), len(part.at)-i)
			part.records[i] = part.slab.End(g.encode(dst, part.partition, rs[at]))
		}
	}
	if !known { // ask the owners at the same time
		together(all, prepare)
		return all
	}
	for _, part := range all {
		prepare(part)
	}
	return all
}

// together calls do for each group, for several at the same time.
func together(all []*group, do func(*group)) {
	if len(all) == 1 {
		do(all[0])
		return
	}
	running := make(chan struct{}, appendsAtOnce)
	var calls sync.WaitGroup
	for _, part := range all {
		running <- struct{}{}
		calls.Go(func() {
			defer func() { <-running }()
			do(part)
		})
	}
	calls.Wait()
}

// Send makes records durable. It returns how many of the first records are, and why the next one is not.
func (g *gateway) Send(ctx context.Context, location int, rs []codec.Record) (int, error) {
	if len(rs) == 1 {
		p := g.ofRecord(location, &rs[0])
		if err := g.agree(ctx, p, rs[0].Op); err != nil {
			return 0, err
		}
		if _, err := g.append(ctx, p, g.encode(nil, p, rs[0])); err != nil {
			return 0, err
		}
		return 1, nil
	}
	all := g.groups(ctx, location, rs)
	together(all, func(part *group) {
		if part.err != nil {
			return
		}
		part.err = g.inPieces(part.partition, part.records, len(part.records), func(from, to int) error {
			_, err := g.append(ctx, part.partition, part.records[from:to]...)
			if err == nil {
				part.done = to
			}
			return err
		})
	})
	n, err := len(rs), error(nil)
	for _, part := range all {
		part.slab.Free() // the log has a copy
		if part.err != nil && part.at[part.done] < n {
			n, err = part.at[part.done], part.err
		}
	}
	return n, err
}

// inPieces calls do for successive pieces of the records of a partition, each of at most most records and at
// most as many bytes as one append takes. If the log says that a piece is too large, so that it surely does not
// have it, do is called for a smaller piece. inPieces stops at the first other error.
//
// Options.MaxLag bounds a piece as well, so that a batch waits with its remainder. If another process owns the
// partition, a piece is half of what may be in flight to it, so that a piece need not wait until nothing else
// is in flight.
func (g *gateway) inPieces(p int, records [][]byte, most int, do func(from, to int) error) error {
	may := g.opts.MaxLag
	if g.shared != nil && !g.partitions[p].isOwned() {
		may = share(may).half()
	}
	most = min(most, may.Records)
	limit, last := min(appendBytes, may.Bytes), min(appendBytes+appendBytes/2, may.Bytes)
	if g.less.Load() {
		limit, last = min(limit, lessBytes), min(last, lessBytes)
	}
	for n := 0; n < len(records); {
		to, size := pieceOf(records, n, most, limit)
		if end, whole := pieceOf(records, n, most, last); end == len(records) {
			to, size = end, whole // a small rest would take about as long as the piece
		}
		switch err := do(n, to); {
		case err == nil:
			n = to
		case errors.Is(err, journal.ErrTooLarge) && to > n+1:
			limit = size / 2
			if size > lessBytes {
				g.less.Store(true)
				limit = min(limit, lessBytes)
			}
			last = limit
		default:
			return err
		}
	}
	return nil
}

// pieceOf returns the end of a piece of records that begins at from, and its size: most records, and limit bytes
// unless its first record is larger.
func pieceOf(records [][]byte, from, most, limit int) (to, size int) {
	for to = from; to < len(records) && (to == from || to-from < most && size+len(records[to]) <= limit); to++ {
		size += len(records[to])
	}
	return to, size
}

// Put makes records durable that may be refused, and waits for the results.
func (g *gateway) Put(ctx context.Context, location int, rs []codec.Record) []error {
	return g.decide(ctx, location, rs, g.append)
}

// An appendFunc makes records of a partition durable.
type appendFunc func(ctx context.Context, p int, records ...[]byte) (at uint64, err error)

// decide makes records durable with do, and waits until it is known which of them were refused.
func (g *gateway) decide(ctx context.Context, location int, rs []codec.Record, do appendFunc) []error {
	nonces, errs := make([]uint64, len(rs)), make([]error, len(rs))
	for i := range rs {
		nonces[i] = g.nonce()
		rs[i].Nonce = nonces[i]
	}
	together(g.groups(ctx, location, rs), func(part *group) {
		if part.err != nil {
			for _, i := range part.at {
				errs[i] = part.err
			}
			return
		}
		g.put(ctx, part, nonces, errs, do)
	})
	return errs
}

// put is decide for a group. A record that is too large for the log does not hold up the others, since entries
// have no order.
func (g *gateway) put(ctx context.Context, part *group, nonces []uint64, errs []error, do appendFunc) {
	for part.done < len(part.records) {
		from := part.done
		err := g.inPieces(part.partition, part.records[from:], putsAtOnce, func(i, j int) error {
			err := g.putPiece(ctx, part.partition, part.records[from+i:from+j], part.at[from+i:from+j], nonces, errs, do)
			if err == nil {
				part.done = from + j
			}
			return err
		})
		switch {
		case err == nil:
		case errors.Is(err, journal.ErrTooLarge):
			errs[part.at[part.done]] = err
			part.done++
		default:
			for _, i := range part.at[part.done:] {
				errs[i] = err
			}
			return
		}
	}
}

// putPiece appends records and waits for their results, which it stores in errs at the indexes in at. It
// returns an error only if the append failed.
func (g *gateway) putPiece(ctx context.Context, p int, records [][]byte, at []int, nonces []uint64, errs []error, do appendFunc) error {
	names := make([]uint64, len(at))
	for i, j := range at {
		names[i] = nonces[j]
	}
	pg := g.partitions[p]
	vs := pg.awaitResults(names)
	defer pg.forgetResults(vs)
	position, err := do(ctx, p, records...)
	if err != nil {
		return err
	}
	known, err := g.results(ctx, p, vs, position)
	for i, j := range at {
		if errs[j] = err; i < len(known) {
			errs[j] = known[i]
		}
	}
	return nil
}

// results waits until the records of one message were taken, and returns the result of each. If it stops
// waiting early, it returns the results of the first records and an error.
func (g *gateway) results(ctx context.Context, p int, vs []*recordResult, at uint64) (known []error, err error) {
	pg := g.partitions[p]
	for len(known) < len(vs) {
		if !pg.isOwned() && g.peers != nil {
			answers, err := g.peers.results(ctx, p, vs[len(known):], at)
			if known = append(known, answers...); err != nil {
				return known, err
			}
			continue // ask again for the others: the partition may have another owner now
		}
		pg.setPosition(vs[len(known):], at)
		if known, err = g.localResults(ctx, p, vs, known); err != nil {
			return known, err
		}
	}
	return known, nil
}

// unknownFate returns the error for a caller that stops waiting before the result for its record is known.
func unknownFate(because error) error {
	return fmt.Errorf("durable: the record is kept, but it is not known yet whether it was refused, because its key was there before or its entry was taken: %w", because)
}

// localResults waits a while for the results of records of a partition that this process owns, and appends them
// to known.
func (g *gateway) localResults(ctx context.Context, p int, vs []*recordResult, known []error) ([]error, error) {
	retry := time.NewTimer(time.Second) // by then another process may own the partition
	defer retry.Stop()
	runs := g.partitions[p].running() // replaced when the partition has moved
	for len(known) < len(vs) {
		v := vs[len(known)]
		select {
		case <-v.done:
			known = append(known, g.partitions[p].outcome(p, v))
		case <-retry.C:
			return known, nil
		case <-runs.Done():
			return known, unknownFate(context.Cause(runs))
		case <-ctx.Done():
			return known, unknownFate(context.Cause(ctx))
		case <-g.done:
			return known, g.refusal()
		}
	}
	return known, nil
}
