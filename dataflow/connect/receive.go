package connect

import (
	"context"
	"fmt"
	"io"
	"time"
)

// A receiving is a pump that sends what a [Receiver] delivers and acknowledges it when it is durable. Every
// process has one.
type receiving[K comparable, V any] struct {
	input[K, V]
	pumps    *Pumps
	receiver Receiver[K, V]
	opts     Options
	sending  context.Context
	refusals
}

func (r *receiving[K, V]) run(ctx context.Context, app App) {
	split := Split{ID: r.name}
	m := r.pumps.meter(split)
	m.change(func(s *SplitStatus) { s.Reading = true })
	go func() {
		select {
		case <-app.Done():
			r.pumps.cancel(errStopped)
		case <-ctx.Done():
		}
	}()
	var b Batch[K, V]
	pause := firstPause
	var err error
	for ctx.Err() == nil {
		if err = r.step(ctx, m, &b); err == nil {
			pause = firstPause
			continue
		}
		if ctx.Err() != nil || err == io.EOF {
			break
		}
		r.opts.OnError(split, err)
		if !Passes(err) {
			break
		}
		m.failed(err)
		if !wait(ctx, pauseAfter(err, pause)) {
			break
		}
		pause = min(2*pause, longestPause)
	}
	if ctx.Err() != nil || err == io.EOF {
		err = nil
	}
	if closed := r.receiver.Close(); closed != nil && err == nil {
		err = fmt.Errorf("connect: %s: closing the source: %w", r.name, closed)
	}
	m.over(err, ctx.Err() == nil)
	r.pumps.end(err)
}

// step receives, sends and acknowledges once.
func (r *receiving[K, V]) step(ctx context.Context, m *meter, b *Batch[K, V]) error {
	b.Reset()
	begun := time.Now()
	stop := m.recovers()
	ack, err := r.receiver.Receive(ctx, b)
	stop()
	m.waited(time.Since(begun))
	if err != nil {
		return err
	}
	if len(b.Keys) != len(b.Values) {
		return fmt.Errorf("%w: %s: a batch has %d keys and %d values", ErrOrder, r.name, len(b.Keys), len(b.Values))
	}
	if len(b.Bad) > 0 && r.opts.DeadLetters == nil {
		return fmt.Errorf("connect: %s: a record cannot be decoded, and there is nowhere for dead letters: %s", r.name, b.Bad[0].Cause)
	}
	begun = time.Now()
	refused, err := r.sendAll(r.sending, r.name, b, &r.refusals)
	if err != nil {
		return fmt.Errorf("connect: %s: sending: %w", r.name, err)
	}
	if letters := append(refused, b.Bad...); len(letters) > 0 {
		if err := sent(r.opts.DeadLetters.add(r.sending, r.name, letters)); err != nil {
			return fmt.Errorf("connect: %s: dead letters: %w", r.name, err)
		}
		m.poisoned(len(letters))
	}
	m.counted(len(b.Values)-len(refused), b.End, b.EndTime, b.Behind, time.Since(begun))
	if err := ack(r.sending); err != nil {
		return fmt.Errorf("connect: %s: acknowledging: %w", r.name, Retry(err))
	}
	return nil
}
