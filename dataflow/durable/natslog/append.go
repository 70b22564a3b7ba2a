package natslog

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// maxGathered is the largest message of several callers. Larger ones would not be faster: a disk that
// syncs a mebibyte is busy with writing, not with syncing.
const maxGathered = 1 << 20

// resendFor is how long a message whose answer was lost is sent again. It is shorter than the time
// for which servers remember the id, so that they recognize the last attempt too.
const resendFor = duplicateWindow - 20*time.Second

// An appender gathers the records for one partition while the previous message is in progress.
//
// Under its lock, sending means that a goroutine sends messages, next is the message being gathered,
// or nil, and spare is a buffer that no message uses.
//
// The sending goroutine keeps the position of the previous message, after, which is valid if sure
// is set, and acked, the greatest position that was acknowledged to it.
type appender struct {
	log       *Log
	partition int
	fence     atomic.Uint64 // the last step that is known to be kept
	after     uint64
	sure      bool
	acked     uint64

	mu      sync.Mutex
	next    *pendingMessage
	sending bool
	spare   []byte
}

// A pendingMessage is a message that is waiting to be sent, or sent and waiting for its answer.
type pendingMessage struct {
	message []byte
	records int
	ctx     context.Context // ends when nobody waits for the message any longer
	leave   context.CancelFunc
	callers int           // number of callers that wait for it
	taken   chan struct{} // closed when the message accepts no more records
	done    chan struct{} // closed when the outcome is known:
	answer  ack
	err     error
}

// MaxRecord implements [journal.Limited].
func (l *Log) MaxRecord() int { return l.maxMessage - 1 - binary.MaxVarintLen32 }

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

// join adds records to the message being gathered, as soon as it has room.
func (a *appender) join(ctx context.Context, records [][]byte, size int) (*pendingMessage, error) {
	for {
		a.mu.Lock()
		g := a.next
		if g == nil {
			g = &pendingMessage{message: a.spare[:0], taken: make(chan struct{}), done: make(chan struct{})}
			g.ctx, g.leave = context.WithCancel(a.log.ctx)
			a.next, a.spare = g, nil
		}
		if len(g.message) == 0 || len(g.message)+size <= min(maxGathered, a.log.maxMessage) {
			for _, r := range records {
				g.message = pack(g.message, r)
			}
			g.records += len(records)
			g.callers++
			if !a.sending {
				a.sending = true
				go a.sendAll()
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

// leave is called when a caller stops waiting. Others can still join the
// message while it is being gathered.
func (a *appender) leave(g *pendingMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if g.callers--; g.callers == 0 && g != a.next {
		g.leave()
	}
}

// sendAll sends one message after the other until there is none. Sending one at a time keeps the order
// even if one must be repeated.
func (a *appender) sendAll() {
	for {
		a.mu.Lock()
		g := a.next
		a.next = nil
		if g == nil {
			a.sending = false
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
		if a.spare == nil && cap(g.message) <= 2*maxGathered {
			a.spare = g.message[:0]
		}
		a.mu.Unlock()
	}
}

func (a *appender) send(g *pendingMessage) (ack, error) {
	l := a.log
	id := l.id + "-" + strconv.FormatUint(l.messages.Add(1), 10)
	header := nats.Header{jetstream.MsgIDHeader: []string{id}}
	if err := a.certify(g.ctx, header); err != nil {
		return ack{}, err
	}
	answer, err := l.certain(g.ctx, l.subject(kindRecords, a.partition), g.message, header, resendFor)
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
