package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Kinds of subjects.
const (
	kindRecords       = "in"
	kindStep          = "jr"
	kindStepPiece     = "jp"
	kindSnapshot      = "snap"
	kindSnapshotPiece = "sp"
	kindStatePiece    = "pc"
	kindPurged        = "pg"
)

// errMissing says that a message does not exist, or does not exist yet on
// the replica that was asked.
var errMissing = errors.New("the message is not there")

// askWithin is how long to wait at first for a leader's answer. A request that was in progress when
// the leader died is never answered.
const askWithin = time.Second

// patience returns how long to wait for an answer after a number of attempts without one. Recent
// answers count, because each one that comes too late makes the next one later on a slow connection.
func (l *Log) patience(failed int) time.Duration {
	return min(max(askWithin, 2*time.Duration(l.slow.Load()))<<min(failed, 10), l.longest())
}

// A stored is a message in a stream.
type stored struct {
	sequence uint64
	data     []byte
	header   nats.Header
}

// last returns the last message of a subject. It asks the leader, so it sees everything that was
// acknowledged to anybody before the call. It returns errMissing if there is none.
func (l *Log) last(ctx context.Context, stream, subject string) (m stored, err error) {
	err = l.persist(ctx, "read from "+stream, func(ctx context.Context) error {
		m, err = l.ask(ctx, stream, map[string]any{"last_by_subj": subject})
		if errors.Is(err, errMissing) {
			return final{err}
		}
		return err
	})
	return m, err
}

// first returns the first message of a subject after a sequence. Like last, it asks the leader until it
// answers, and returns errMissing if there is none.
func (l *Log) first(ctx context.Context, stream, subject string, after uint64) (m stored, err error) {
	err = l.persist(ctx, "read from "+stream, func(ctx context.Context) error {
		m, err = l.next(ctx, within(ctx), stream, subject, after)
		if errors.Is(err, errMissing) {
			return final{err}
		}
		return err
	})
	return m, err
}

// next returns the first message of a subject after a sequence. It asks the leader once, and waits no
// longer than within.
func (l *Log) next(ctx context.Context, within time.Duration, stream, subject string, after uint64) (stored, error) {
	attempt, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return l.ask(attempt, stream, map[string]any{"seq": after + 1, "next_by_subj": subject})
}

// ask requests a message from the leader, and waits for it as long as ctx lasts.
func (l *Log) ask(ctx context.Context, stream string, what map[string]any) (stored, error) {
	body, err := json.Marshal(what)
	if err != nil {
		return stored{}, err
	}
	resp, err := l.request(ctx, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + stream, Data: body})
	if err != nil {
		return stored{}, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Sequence uint64 `json:"seq"`
			Data     []byte `json:"data"`
			Header   []byte `json:"hdrs"`
		} `json:"message"`
	}
	if err := json.Unmarshal(resp.Data, &answer); err != nil {
		return stored{}, err
	}
	if answer.Error != nil {
		if answer.Error.ErrorCode == codeNotFound {
			return stored{}, errMissing
		}
		return stored{}, answer.Error
	}
	m := stored{answer.Message.Sequence, answer.Message.Data, nil}
	if len(answer.Message.Header) > 0 {
		if m.header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return stored{}, damaged("the headers of a message")
		}
	}
	return m, nil
}

// directBytes and directCount limit what a replica sends for one request, in bytes and messages.
const (
	directBytes = 4 << 20
	directCount = 1024
)

// run calls each for the messages of a subject with sequences from first to last, as some replica
// has them. The replica may be behind. run stops early when each returns false, and fails when it
// waits for a message longer than within.
func (l *Log) run(ctx context.Context, within time.Duration, stream, subject string, first, last uint64, each func(stored) (bool, error)) error {
	for first <= last {
		inbox := l.nc.NewRespInbox()
		sub, err := l.nc.SubscribeSync(inbox)
		if err != nil {
			return err
		}
		next, err := l.runOnce(ctx, within, sub, stream, subject, first, last, each)
		sub.Unsubscribe()
		if err != nil || next == 0 {
			return err
		}
		first = next
	}
	return nil
}

// runLeader does the same as run, but reads from the leader, one message after the other.
func (l *Log) runLeader(ctx context.Context, within time.Duration, stream, subject string, first, last uint64, each func(stored) (bool, error)) error {
	for first <= last {
		m, err := l.next(ctx, within, stream, subject, first-1)
		if errors.Is(err, errMissing) || err == nil && m.sequence > last {
			return nil
		}
		if err != nil {
			return err
		}
		if on, err := each(m); err != nil || !on {
			return err
		}
		first = m.sequence + 1
	}
	return nil
}

// runOnce makes one request and returns where the next one starts, or zero if there is none.
func (l *Log) runOnce(ctx context.Context, within time.Duration, sub *nats.Subscription, stream, subject string, first, last uint64, each func(stored) (bool, error)) (uint64, error) {
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return 0, err
	}
	body, err := json.Marshal(map[string]any{"seq": first, "next_by_subj": subject, "batch": directCount, "max_bytes": directBytes})
	if err != nil {
		return 0, err
	}
	if err := l.nc.PublishRequest("$JS.API.DIRECT.GET."+stream, sub.Subject, body); err != nil {
		return 0, err
	}
	connection := l.connection()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(connection, cancel)()
	for previous := uint64(0); ; {
		wait, cancel := context.WithTimeout(ctx, within)
		m, err := sub.NextMsgWithContext(wait)
		cancel()
		if err != nil {
			return 0, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
		case "204":
			if pending := m.Header.Get("Nats-Num-Pending"); pending == "0" || pending == "" {
				return 0, nil
			}
			return max(previous, first) + 1, nil
		case "404":
			return 0, nil
		default:
			return 0, fmt.Errorf("%s says %s %s", stream, status, m.Header.Get("Description"))
		}
		sequence, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
		if err != nil || sequence < first || sequence <= previous {
			return 0, fmt.Errorf("%s sent a message with the sequence %q", stream, m.Header.Get("Nats-Sequence"))
		}
		if before := m.Header.Get("Nats-Last-Sequence"); before != strconv.FormatUint(previous, 10) && before != "" {
			return 0, fmt.Errorf("%s sent messages of which one was lost", stream)
		}
		if sequence > last {
			return 0, nil
		}
		previous = sequence
		if on, err := each(stored{sequence, m.Data, m.Header}); err != nil || !on {
			return 0, err
		}
	}
}

// single returns one message of a stream, from any replica that has it. It waits no longer than
// within for a replica, and again for the leader.
func (l *Log) single(ctx context.Context, within time.Duration, stream string, sequence uint64) ([]byte, error) {
	body := []byte(`{"seq":` + strconv.FormatUint(sequence, 10) + `}`)
	attempt, cancel := context.WithTimeout(ctx, within)
	m, err := l.request(attempt, &nats.Msg{Subject: "$JS.API.DIRECT.GET." + stream, Data: body})
	cancel()
	if err == nil && m.Header.Get("Status") == "" {
		return m.Data, nil
	}
	attempt, cancel = context.WithTimeout(ctx, within)
	defer cancel()
	s, err := l.ask(attempt, stream, map[string]any{"seq": sequence})
	return s.data, err
}
