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

// Limits of what a call of Next reads while the server has more.
const (
	maxChanges = 4096
	maxBytes   = 1 << 20
)

// A cursor reads a slot. A change has the position of its transaction's commit and its number in the transaction. Behind the
// transaction the position is the transaction's end, with the number zero; the next commit may be at that place.
type cursor[K comparable, V any] struct {
	private
	slot        Slot
	split       connect.Split
	decode      func(Change) (K, V, error)
	incarnation int64
	timeout     time.Duration

	after   dataflow.Position // what is not behind it was sent for the beginning of its transaction
	start   uint64
	stream  *stream
	copying *snapshot // nil once it was read

	conn    net.Conn // once the server streams
	in      *pgproto3.Frontend
	decoder decoder
	cuts    []cut // where batches ended within transactions
	stop    chan struct{}
	stopped sync.WaitGroup
	closed  bool

	telling  sync.Mutex // for what is told to the server
	received uint64
	flushed  uint64 // up to where the server may forget, zero for not known
	reading  bool   // whether the table has the slot as one whose snapshot is in the flow
}

// A cut is the end of a batch within a transaction.
type cut struct{ commit, end uint64 }

// maxCuts bounds the cuts that are remembered for positions that nobody confirms.
const maxCuts = 1024

// hijack takes the connection, to read and write it at the same time.
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
		// Also while nobody reads, or the server would end the connection.
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

// tell says to the server what was received and what it may forget: "Standby status update" of the manual.
func (c *cursor[K, V]) tell() error {
	c.telling.Lock()
	defer c.telling.Unlock()
	b := append(make([]byte, 0, 39), 'd', 0, 0, 0, 38, 'r')
	b = binary.BigEndian.AppendUint64(b, max(c.received, c.flushed))
	b = binary.BigEndian.AppendUint64(b, c.flushed)
	b = binary.BigEndian.AppendUint64(b, c.flushed)
	b = binary.BigEndian.AppendUint64(b, uint64(time.Since(epoch).Microseconds()))
	_, err := c.conn.Write(append(b, 0)) // no answer is wanted
	return err
}

// Next waits for changes, and returns those that are there, up to a limit.
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
		// What the server has read of its log is sent, except for a transaction that it is sending. It says so also while nothing
		// is for this slot, and so that is forgotten as well.
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
			return // of a transaction that was cut, or the same with the snapshot
		}
		k, v, err := c.decode(x)
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

// Confirm lets the server forget the transactions that are wholly not behind p.
func (c *cursor[K, V]) Confirm(ctx context.Context, p dataflow.Position) error {
	if p.Major < c.start || c.conn == nil {
		return nil
	}
	if !c.reading {
		// From now on a reader that is opened goes on where the flow is, also if it is in the first transaction.
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

// remember keeps where the transaction before ended, if a batch ended within one.
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

// whole returns the end of the last transaction that is wholly not behind p, and zero if that is not known.
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

// Close ends the session. It waits until the server has left the slot, so that it can be opened again, but not for long.
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

// error names the slot. What ends the connection passes; what the server has removed does not come back.
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
