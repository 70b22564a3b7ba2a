package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// answerWithin is how long to wait for an answer before it counts as lost. An election takes 4 to 9
// seconds, so a longer wait would not help when the old leader has died with the answer.
const answerWithin = 5 * time.Second

// slowest is how many bytes a second a connection carries at least. On a slower one the pings, which wait
// behind large messages, are late too, so that the connection counts as lost.
const slowest = 2 << 20

// longest is how long to wait for an answer that may be the largest message.
func (l *Log) longest() time.Duration {
	if l.nc == nil { // not connected yet
		return answerWithin
	}
	return answerWithin + time.Duration(l.nc.MaxPayload())*time.Second/slowest
}

// Error codes of the server.
const (
	codeResources           jetstream.ErrorCode = 10002
	codeNoSuitablePeers     jetstream.ErrorCode = 10005
	codeInsufficient        jetstream.ErrorCode = 10023
	codeMemory              jetstream.ErrorCode = 10028
	codeNotFound            jetstream.ErrorCode = 10037
	codeStorage             jetstream.ErrorCode = 10047
	codeTooLarge            jetstream.ErrorCode = 10054
	codeWrongSequence       jetstream.ErrorCode = 10071
	codeReplicasUnsupported jetstream.ErrorCode = 10074
	codeStoreFailed         jetstream.ErrorCode = 10077
	codeSameUnderWay        jetstream.ErrorCode = 10158 // the id is known, but its message is not kept yet
	codeSubjectUnderWay     jetstream.ErrorCode = 10164 // a message of the same subject is being kept, or was acknowledged a moment ago
)

// Outcomes of a message that was not acknowledged.
var (
	// errNotSent says that the message was certainly not kept. It may be sent again.
	errNotSent = errors.New("not sent")
	// errNoAnswer says that the message may have been kept.
	errNoAnswer = errors.New("no answer")
)

// An ack is the answer to a message.
type ack struct {
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// publish sends a message once. The error is errNotSent, errNoAnswer or the server's reason to
// refuse the message, which is an error of package journal or a [jetstream.APIError].
func (l *Log) publish(ctx context.Context, subject string, data []byte, header nats.Header) (ack, error) {
	if l.embedded != nil && l.embedded.full() && l.ctx.Err() == nil {
		return ack{}, fmt.Errorf("%w: the embedded server has stopped writing, its log says why; make room on the disk of %s and open the log again", journal.ErrFull, l.opts.Dir)
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	resp, err := l.request(ctx, &nats.Msg{Subject: subject, Data: data, Header: header})
	if err != nil {
		return ack{}, err
	}
	var a ack
	if err := json.Unmarshal(resp.Data, &a); err != nil {
		return ack{}, fmt.Errorf("%w that can be read: %w", errNoAnswer, err)
	}
	if a.Error != nil {
		return ack{}, refusal(a.Error)
	}
	if a.Sequence == 0 {
		return ack{}, fmt.Errorf("%w that can be read: %q", errNoAnswer, resp.Data)
	}
	return a, nil
}

// request sends a message and waits for its answer over the same connection, for as long as ctx lasts.
func (l *Log) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	connection := l.connection()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(connection, cancel)()
	sent := time.Now()
	resp, err := l.nc.RequestMsgWithContext(ctx, m)
	switch {
	case err == nil:
		was := l.slow.Load()
		l.slow.Store(max(int64(time.Since(sent)), was-was/8))
		return resp, nil
	case errors.Is(err, nats.ErrConnectionClosed):
		return nil, fmt.Errorf("%w: %w", errNoAnswer, journal.ErrClosed)
	case errors.Is(err, nats.ErrMaxPayload):
		return nil, fmt.Errorf("%w: %d bytes, the servers take %d", journal.ErrTooLarge, len(m.Data), l.nc.MaxPayload())
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionReconnecting):
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	return nil, fmt.Errorf("%w: %w", errNoAnswer, err)
}

// refusal returns the error for a server's reason to refuse a message.
func refusal(e *jetstream.APIError) error {
	switch {
	case e.ErrorCode == codeWrongSequence:
		return fmt.Errorf("%w (%w)", journal.ErrFenced, e)
	case e.ErrorCode == codeSubjectUnderWay:
		// Whether another message is the last one is known in a moment: the server acknowledges a message before it forgets that the
		// message is being kept, so what follows at once may be refused.
		return fmt.Errorf("%w: %w", errNotSent, e)
	case e.ErrorCode == codeTooLarge:
		return fmt.Errorf("%w: %w", journal.ErrTooLarge, e)
	case full(e):
		return fmt.Errorf("%w: %w; purge, raise the limit or make room on the servers' disks", journal.ErrFull, e)
	case e.ErrorCode == codeStoreFailed:
		// The server does not say whether the message reached its disk before the failure.
		return fmt.Errorf("%w: %w", errNoAnswer, e)
	case e.ErrorCode == codeSameUnderWay:
		return fmt.Errorf("%w yet: %w", errNoAnswer, e)
	case e.Code == 503:
		return fmt.Errorf("%w: %w", errNotSent, e)
	}
	return e
}

// full reports whether an error of a server says that there is no room.
func full(e *jetstream.APIError) bool {
	if e.ErrorCode == codeStoreFailed {
		return strings.Contains(e.Description, "maximum bytes") || strings.Contains(e.Description, "no space left") || strings.Contains(e.Description, "disk full")
	}
	return slices.Contains([]jetstream.ErrorCode{codeResources, codeInsufficient, codeMemory, codeStorage}, e.ErrorCode)
}

// certain sends a message until its outcome is known or ctx ends. It must only be used for a
// message that has an id or may exist twice. after is how long it continues once the message may
// have been kept.
func (l *Log) certain(ctx context.Context, subject string, data []byte, header nats.Header, after time.Duration) (ack, error) {
	var doubtful time.Time // when it was first sent without an answer
	for try := 0; ; try++ {
		sent := time.Now()
		a, err := l.publish(ctx, subject, data, header)
		switch {
		case err == nil:
			return a, nil
		case errors.Is(err, errNoAnswer):
			if doubtful.IsZero() {
				doubtful = sent
			}
		case !errors.Is(err, errNotSent):
			return ack{}, err
		}
		l.counters.retries.Add(1)
		switch {
		case l.ctx.Err() != nil:
			return ack{}, context.Cause(l.ctx)
		case ctx.Err() != nil:
			return ack{}, unreachable(ctx, "append to "+subject, err)
		case !doubtful.IsZero() && time.Since(doubtful) > after:
			return ack{}, fmt.Errorf("natslog: no answer from %s for %v, so it is not known whether %s has the message: %w", l.where(), after, subject, err)
		}
		if errors.Is(err, nats.ErrNoResponders) && try%16 == 8 { // there is no leader yet, or the stream is gone
			go l.recognize()
		}
		if errors.Is(err, errNotSent) || errors.As(err, new(*jetstream.APIError)) {
			if err := l.pause(ctx, try); err != nil {
				return ack{}, unreachable(ctx, "append to "+subject, err)
			}
		}
	}
}
