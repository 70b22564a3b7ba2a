package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect"
)

// abortLimit is how long Close of a writer waits for an open transaction to be aborted.
const abortLimit = 5 * time.Second

// A writer writes one lane in transactions.
type writer[T any] struct {
	s      Sink[T]
	lane   connect.Lane
	client *kgo.Client

	mu     sync.Mutex // allows one transaction at a time
	number *number
	last   uint64
	broken error // why the lane must be opened again

	idle   *time.Timer
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func startWriter[T any](s Sink[T], l connect.Lane, cl *kgo.Client, n *number, last uint64) *writer[T] {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writer[T]{s: s, lane: l, client: cl, number: n, last: last, cancel: cancel, idle: time.NewTimer(s.Refresh)}
	w.done.Go(func() { w.keep(ctx) })
	return w
}

// keep writes the number of an idle lane again.
func (w *writer[T]) keep(ctx context.Context) {
	for {
		select {
		case <-w.idle.C:
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
		if w.broken == nil {
			w.broken = heals(w.touch(ctx))
		}
		w.idle.Reset(w.s.Refresh)
		w.mu.Unlock()
	}
}

func (w *writer[T]) touch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.s.Timeout)
	defer cancel()
	return w.number.touch(ctx, w.last)
}

func (w *writer[T]) Write(ctx context.Context, first uint64, xs []T) (e connect.Atomic, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, w.s.Timeout)
	defer cancel()
	if w.broken == nil {
		w.broken = w.write(ctx, first, xs)
	}
	w.idle.Reset(w.s.Refresh)
	if w.broken != nil {
		return e, failure(fmt.Sprintf("kafka: writing lane %s", w.lane), w.broken)
	}
	return e, nil
}

func (w *writer[T]) write(ctx context.Context, first uint64, xs []T) error {
	if first != w.last+1 {
		return fmt.Errorf("elements from number %d on, and the last one that is there is %d", first, w.last)
	}
	if len(xs) == 0 {
		return nil
	}
	records, err := encode(w.s.Encode, first, xs)
	if err != nil {
		return err
	}
	return heals(w.commit(ctx, records, first+uint64(len(xs))-1))
}

// commit writes records and the number of the last one in a transaction.
func (w *writer[T]) commit(ctx context.Context, records []*kgo.Record, last uint64) (err error) {
	if err := w.client.BeginTransaction(); err != nil {
		return err
	}
	if err := produce(ctx, w.client, records); err != nil {
		return err
	}
	if w.number.producer, w.number.epoch, err = w.client.ProducerID(ctx); err != nil {
		return err
	}
	if err := w.number.write(ctx, last); err != nil {
		return err
	}
	if err := w.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return err
	}
	w.last = last
	w.number.producer, w.number.epoch, err = w.client.ProducerID(ctx)
	return err
}

// produce writes records and waits for all of them. Flush says that no more records come, so that
// the client does not wait for more.
func produce(ctx context.Context, cl *kgo.Client, records []*kgo.Record) error {
	var first kgo.FirstErrPromise
	for _, r := range records {
		cl.Produce(ctx, r, first.Promise())
	}
	if err := cl.Flush(ctx); err != nil {
		return err // do not wait for records in flight
	}
	return first.Err()
}

// encode returns the records of elements.
func encode[T any](f func(uint64, T) (*kgo.Record, error), first uint64, xs []T) ([]*kgo.Record, error) {
	records := make([]*kgo.Record, len(xs))
	for i, x := range xs {
		r, err := f(first+uint64(i), x)
		if err != nil {
			return nil, fmt.Errorf("encoding element %d: %w", first+uint64(i), err)
		}
		if r == nil {
			return nil, fmt.Errorf("encoding element %d: no record", first+uint64(i))
		}
		records[i] = r
	}
	return records, nil
}

// Close aborts a transaction that could not be finished, so that readers need not wait for its timeout.
func (w *writer[T]) Close() error {
	w.cancel()
	w.done.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle.Stop()
	if w.broken != nil && !errors.Is(w.broken, connect.ErrFenced) {
		ctx, cancel := context.WithTimeout(context.Background(), abortLimit)
		defer cancel()
		w.client.AbortBufferedRecords(ctx)
		w.client.EndTransaction(ctx, kgo.TryAbort)
	}
	w.broken = errors.New("the writer is closed")
	w.client.Close()
	w.number.close()
	return nil
}
