package natslog

import (
	"context"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// pieceSize is the size of a piece, where messages may be that large. Servers handle many messages
// of a mebibyte better than few larger ones.
const pieceSize = 1 << 20

// maxParcel limits steps and snapshots, so that the list of their pieces fits into the smallest
// reasonable message.
const maxParcel = 1 << 30

// piecesAtOnce is how many pieces are sent or read at once.
const piecesAtOnce = 4

// wrap returns the stored form of a step or a snapshot. If the data is larger than inline, wrap
// keeps its pieces first.
func (l *Log) wrap(ctx context.Context, kind string, partition int, number uint64, data []byte, inline int) (parcel, error) {
	if len(data) <= inline {
		return parcel{number: number, data: data}, nil
	}
	if len(data) > maxParcel {
		return parcel{}, fmt.Errorf("%w: %d bytes, at most %d are kept in pieces", journal.ErrTooLarge, len(data), maxParcel)
	}
	size := min(pieceSize, l.maxMessage)
	count := (len(data) + size - 1) / size
	// Only the list needs an order: its first piece is taken for the oldest.
	p := parcel{number: number, size: uint64(len(data)), sum: crc32.Checksum(data, castagnoli), pieces: make([]uint64, count)}
	subject := l.subject(kind, partition)
	keep := func(ctx context.Context, i int) error {
		// The second copy of a piece that exists twice is in no list. The next purge deletes it.
		a, err := l.certain(ctx, subject, data[i*size:min((i+1)*size, len(data))], nil, resendFor)
		p.pieces[i] = a.Sequence
		return err
	}
	if err := keep(ctx, 0); err != nil {
		return parcel{}, err
	}
	return p, inParallel(ctx, count-1, func(ctx context.Context, i int) error { return keep(ctx, i+1) })
}

// unwrap returns the bytes of a step or a snapshot. It returns errMissing if pieces were purged, and
// fails when it waits for a piece longer than within.
func (l *Log) unwrap(ctx context.Context, within time.Duration, p parcel) ([]byte, error) {
	if p.pieces == nil {
		return p.data, nil
	}
	parts := make([][]byte, len(p.pieces))
	err := inParallel(ctx, len(p.pieces), func(ctx context.Context, i int) (err error) {
		parts[i], err = l.single(ctx, within, l.st(), p.pieces[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	data := make([]byte, 0, size)
	for _, part := range parts {
		data = append(data, part...)
	}
	if uint64(size) != p.size || crc32.Checksum(data, castagnoli) != p.sum {
		return nil, damaged("pieces do not fit together")
	}
	return data, nil
}

// inParallel calls do with 0 to n-1, a few at a time, and returns the first error.
func inParallel(ctx context.Context, n int, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for worker := range min(n, piecesAtOnce) {
		wg.Go(func() {
			for i := worker; i < n && ctx.Err() == nil; i += piecesAtOnce {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
