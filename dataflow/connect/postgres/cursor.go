package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// Limits of one call of Next while the server has more.
const (
	maxChanges = 4096
	maxBytes   = 1 << 20
)

// A cursor reads a slot. The position of a change is that of its transaction's commit, and its number in the transaction. After a
// transaction, the position is the end of the transaction, with the number zero. The next commit may be at that position.
type cursor[K comparable, V any] struct {
	private
	slot        Slot
	split       connect.Split
	decode      func(Change) (K, V, error)
	incarnation int64
	timeout     time.Duration

	after   dataflow.Position // changes up to it were sent only because their transaction continues after it
	start   uint64
	stream  *stream
	copying *snapshot // nil once it was read

	conn    net.Conn // set when the server streams
	in      *pgproto3.Frontend
	decoder decoder
	cuts    []cut // where batches ended within transactions
	stop    chan struct{}
	stopped sync.WaitGroup
	closed  bool

	telling  sync.Mutex // held for updates to the server
	received uint64
	flushed  uint64 // the server may forget everything up to here; zero if not known
	reading  bool   // whether the table says that the slot's snapshot is in the flow
}

// A cut is the end of a batch within a transaction.
type cut struct{ commit, end uint64 }

// maxCuts limits the cuts that are kept for positions that are never confirmed.
const maxCuts = 1024

// hijack takes over the connection, to read and write it at the same time.
func (c *cursor[K, V]) hijack() error {
	h, err := c.stream.Hijack()
	if err != nil {
		return err
	}
	c.conn, c.in, c.stop, c.received = h.Conn, h.Frontend, make(chan struct{}), c.start
	every := 10 * time.Second
	if c.timeout > 0 {
		every = min(every, c.timeout/4)
	}
	c.stopped.Go(func() {
		// This also runs while nobody reads, because otherwise the server would end the connection.
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.tell()
			case <-c.stop:
				return
			}
		}
	})
	return nil
}

// tell tells the server what was received and what it may forget. See "Standby status update" in the manual.
func (c *cursor[K, V]) tell() error {
	c.telling.Lock()
	defer c.telling.Unlock()
	b := append(make([]byte, 0, 39), 'd', 0, 0, 0, 38, 'r')
	b = binary.BigEndian.AppendUint64(b, max(c.received, c.flushed))
	b = binary.BigEndian.AppendUint64(b, c.flushed)
	b = binary.BigEndian.AppendUint64(b, c.flushed)
	b = binary.BigEndian.AppendUint64(b, uint64(time.Since(epoch).Microseconds()))
	_, err := c.conn.Write(append(b, 0)) // do not request an answer
	return err
}

// Next waits for changes, and returns the available ones, up to a limit.
func (c *cursor[K, V]) Next(ctx context.Context, b *connect.Batch[K, V]) error {
	if c.copying != nil {
		ended, err := c.copying.next(ctx, c.add(b, nil))
		if err != nil {
			return c.error(err)
		}
		if !ended {
			return nil
		}
		c.copying.close()
		c.copying = nil
		b.End = dataflow.Position{Major: c.start}
		return c.replicate(ctx)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.conn.SetReadDeadline(time.Time{})
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		c.conn.SetReadDeadline(time.Unix(1, 0))
		close(interrupted)
	})
	defer func() {
		if !stop() {
			<-interrupted
		}
		c.remember()
	}()
	size := 0
	for {
		n, err := c.read(b)
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() != nil {
				if b.End != (dataflow.Position{}) {
					return nil
				}
				return ctx.Err()
			}
			return c.error(err)
		}
		size += n
		more := c.in.ReadBufferLen() > 0 || c.stream.buffered() > 0
		if b.End != (dataflow.Position{}) && (!more || len(b.At)+len(b.Bad) >= maxChanges || size >= maxBytes) {
			return nil
		}
	}
}

// read reads one message.
func (c *cursor[K, V]) read(b *connect.Batch[K, V]) (size int, err error) {
	m, err := c.in.Receive()
	if err != nil {
		return 0, err
	}
	switch m := m.(type) {
	case *pgproto3.ErrorResponse:
		return 0, pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone, *pgproto3.CommandComplete:
		return 0, errors.New("the server ended the stream")
	case *pgproto3.CopyData:
		return len(m.Data), c.message(m.Data, b)
	}
	return 0, nil
}

func (c *cursor[K, V]) message(data []byte, b *connect.Batch[K, V]) error {
	r := &reader{rest: data}
	switch kind := r.byte(); kind {
	case 'k':
		at := r.uint64()
		r.uint64()
		answer := r.byte() == 1
		if r.failed {
			return errMalformed
		}
		// The server has sent everything that it has read of its log, except for a transaction that it is sending. It reports
		// this position even while nothing is for this slot, so that log can be forgotten too.
		if end := (dataflow.Position{Major: at}); !c.decoder.open && at > c.decoder.end {
			c.decoder.end, b.End = at, end
			c.receive(at)
		}
		if answer {
			return c.tell()
		}
	case 'w':
		r.bytes(24)
		if r.failed {
			return errMalformed
		}
		was := c.decoder.open
		if err := c.decoder.decode(r.rest, c.add(b, r.rest)); err != nil {
			return err
		}
		if was && !c.decoder.open {
			b.End, b.EndTime = dataflow.Position{Major: c.decoder.end}, c.decoder.time
			c.receive(c.decoder.end)
		}
	default:
		return fmt.Errorf("%w: copy data of kind %q", errMalformed, kind)
	}
	return nil
}

func (c *cursor[K, V]) receive(at uint64) {
	c.telling.Lock()
	c.received = at
	c.telling.Unlock()
}

// add returns a function that adds a change to a batch.
func (c *cursor[K, V]) add(b *connect.Batch[K, V], raw []byte) func(uint64, Change) {
	return func(index uint64, x Change) {
		at := dataflow.Position{Major: c.decoder.commit, Minor: index}
		if !at.After(c.after) {
			return // of a transaction that was cut, or of the snapshot
		}
		k, v, err := connect.Decode(c.decode, x)
		switch {
		case err == nil:
			b.Add(k, v, at)
		case errors.Is(err, ErrSkip):
			b.End = at
		default:
			b.AddBad(c.split, at, raw, err)
		}
		b.EndTime = x.Commit
	}
}

// Confirm lets the server forget the transactions that end at or before p.
func (c *cursor[K, V]) Confirm(ctx context.Context, p dataflow.Position) error {
	if p.Major < c.start || c.conn == nil {
		return nil
	}
	if !c.reading {
		// From now on, a new reader continues at the position of the flow, even within the first transaction.
		if err := c.slot.session(ctx, func(sql *pgx.Conn) error { return c.slot.reads(ctx, sql, c.incarnation) }); err != nil {
			return err
		}
		c.reading = true
	}
	c.telling.Lock()
	c.flushed = max(c.flushed, c.whole(p))
	c.telling.Unlock()
	return c.error(c.tell())
}

// remember records where the previous transaction ended, if a batch ended within a transaction.
func (c *cursor[K, V]) remember() {
	x := cut{c.decoder.commit, c.decoder.end}
	if !c.decoder.open || len(c.cuts) > 0 && c.cuts[len(c.cuts)-1] == x {
		return
	}
	if len(c.cuts) == maxCuts {
		c.cuts = c.cuts[1:]
	}
	c.cuts = append(c.cuts, x)
}

// whole returns the end of the last transaction that ends at or before p, or zero if that is not known.
func (c *cursor[K, V]) whole(p dataflow.Position) uint64 {
	for len(c.cuts) > 0 && c.cuts[0].commit < p.Major {
		c.cuts = c.cuts[1:]
	}
	if p.Minor == 0 {
		return p.Major
	}
	if len(c.cuts) > 0 && c.cuts[0].commit == p.Major {
		return c.cuts[0].end
	}
	return 0
}

// Close ends the session. It waits, for a limited time, until the server has released the slot, so that it can be opened again.
func (c *cursor[K, V]) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	if c.copying != nil {
		c.copying.close()
	}
	if c.conn == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return c.stream.hidden.hide(c.stream.Close(ctx))
	}
	close(c.stop)
	c.conn.SetDeadline(time.Now().Add(patience))
	if _, err := c.conn.Write([]byte{'c', 0, 0, 0, 4, 'X', 0, 0, 0, 4}); err == nil { // CopyDone, Terminate
		io.Copy(io.Discard, c.conn)
	}
	c.conn.Close()
	c.stopped.Wait()
	return nil
}

// error adds the name of the slot. Errors that end the connection pass. What the server has removed does not come back.
func (c *cursor[K, V]) error(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	err = c.stream.hidden.hide(err)
	if k := code(err); k == undefinedFile || k == notInState && strings.Contains(err.Error(), "can no longer") {
		return fmt.Errorf("postgres: slot %q: %w: %w", c.slot.Name, err, connect.ErrGap)
	}
	return c.slot.error(err, !errors.Is(err, errMalformed))
}
