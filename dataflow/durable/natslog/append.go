package natslog

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// gathered is how large a message of several callers becomes. More would not be faster:
// a disk that syncs a mebibyte is busy with writing, not with syncing.
const gathered = 1 << 20

// repeated is how long a message is repeated whose answers were lost. It ends before the
// servers forget the id, so that the last attempt is recognized as well.
const repeated = remembered - 20*time.Second

// An appender gathers the records that come in for one partition while the message
// before them is under way.
//
// Under its lock, flying means that a goroutine sends messages; next is the message that
// is gathered, nil if nothing is; spare is a buffer that no message uses.
//
// The goroutine that sends knows the position of the message before, after, if it is sure,
// and the greatest one that was acknowledged to it.
type appender struct {
	log       *Log
	partition int
	fence     atomic.Uint64 // of the last step that is known to be kept
	after     uint64
	sure      bool
	acked     uint64

	mu     sync.Mutex
	next   *gathering
	flying bool
	spare  []byte
}

// A gathering is a message that waits until it can be sent, and then until it is answered.
type gathering struct {
	message []byte
	records int
	ctx     context.Context // ends when nobody waits for it any more
	leave   context.CancelFunc
	callers int           // who wait for it
	taken   chan struct{} // closed when it takes no more records
	done    chan struct{} // closed when it is known what became of it:
	answer  ack
	err     error
}

// Append adds records in one message.
func (l *Log) Append(ctx context.Context, partition int, records ...[]byte) (uint64, error) {
	if err := l.ready(ctx, partition); err != nil || len(records) == 0 {
		return 0, err
	}
	size := 0
	for _, r := range records {
		size += packed(r)
	}
	if size+1 > l.maxMessage {
		return 0, fmt.Errorf("%w: %d bytes of records, %d can be kept together", journal.ErrTooLarge, size, l.maxMessage-1)
	}
	if err := l.admit(ctx, &l.records, journal.PurposeOf(ctx, journal.ToSend), size); err != nil {
		return 0, err
	}
	a := &l.appenders[partition]
	g, err := a.join(ctx, records, size)
	if err != nil {
		return 0, err
	}
	select {
	case <-g.done:
		return g.answer.Sequence, g.err
	case <-ctx.Done():
		a.leave(g)
		return 0, unreachable(ctx, "append to partition "+strconv.Itoa(partition), nil)
	}
}

// join adds records to the message that is gathered, as soon as there is room.
func (a *appender) join(ctx context.Context, records [][]byte, size int) (*gathering, error) {
	for {
		a.mu.Lock()
		g := a.next
		if g == nil {
			g = &gathering{message: a.spare[:0], taken: make(chan struct{}), done: make(chan struct{})}
			g.ctx, g.leave = context.WithCancel(a.log.ctx)
			a.next, a.spare = g, nil
		}
		if len(g.message) == 0 || len(g.message)+size <= min(gathered, a.log.maxMessage) {
			for _, r := range records {
				g.message = pack(g.message, r)
			}
			g.records += len(records)
			g.callers++
			if !a.flying {
				a.flying = true
				go a.fly()
			}
			a.mu.Unlock()
			return g, nil
		}
		a.mu.Unlock()
		select {
		case <-g.taken:
		case <-ctx.Done():
			return nil, unreachable(ctx, "append to partition "+strconv.Itoa(a.partition), nil)
		}
	}
}

// leave is what a caller does who does not want to wait any longer. While a message is
// gathered others may still join it.
func (a *appender) leave(g *gathering) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g.callers--; g.callers == 0 && g != a.next {
		g.leave()
	}
}

// fly sends one message after the other until nothing is gathered any more. One at a
// time keeps the order also when one has to be repeated.
func (a *appender) fly() {
	for {
		a.mu.Lock()
		g := a.next
		a.next = nil
		if g == nil {
			a.flying = false
			a.mu.Unlock()
			return
		}
		close(g.taken)
		if g.callers == 0 {
			g.leave()
		}
		a.mu.Unlock()

		g.answer, g.err = a.send(g)
		close(g.done)
		g.leave()

		a.mu.Lock()
		if a.spare == nil && cap(g.message) <= 2*gathered {
			a.spare = g.message[:0]
		}
		a.mu.Unlock()
	}
}

func (a *appender) send(g *gathering) (ack, error) {
	l := a.log
	id := l.id + "-" + strconv.FormatUint(l.messages.Add(1), 10)
	header := nats.Header{jetstream.MsgIDHeader: []string{id}}
	if err := a.certify(g.ctx, header); err != nil {
		return ack{}, err
	}
	answer, err := l.certain(g.ctx, l.subject(kindRecords, a.partition), g.message, header, repeated)
	if err == nil {
		err = a.acknowledged(answer.Sequence)
	}
	if err != nil {
		a.sure = false
		return ack{}, err
	}
	l.counters.messages.Add(1)
	l.counters.records.Add(uint64(g.records))
	return answer, nil
}
