package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
)

// TestConnectionThatEndsIsNoEnd checks that a closed connection, which the client reports as io.EOF, is not io.EOF to a pump:
// that would end the split for good.
func TestConnectionThatEndsIsNoEnd(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	b := &broker{t: t, seeds: []string{l.Addr().String()}}
	few := []kgo.Opt{kgo.RequestRetries(1), kgo.RetryTimeout(time.Second)}
	r := b.reader(t, kafka.Topic[string, string]{Name: "x", Client: few})
	_, err = r.Splits(t.Context())
	if err == nil || errors.Is(err, io.EOF) || !retried(err) {
		t.Errorf("looking for splits: %v, want an error of Retry that is no io.EOF", err)
	}
	_, err = r.Open(t.Context(), connect.Split{ID: "kafka/AAAAAAAAAAAAAAAAAAAAAA/1"}, dataflow.Position{Major: 1})
	if err == nil || errors.Is(err, io.EOF) || !retried(err) {
		t.Errorf("opening: %v, want an error of Retry that is no io.EOF", err)
	}
	s := b.sink("x")
	s.Client = few
	_, _, err = s.Open(t.Context(), connect.Lane{Flow: "f", Output: "o"})
	if err == nil || errors.Is(err, io.EOF) || !retried(err) {
		t.Errorf("opening a lane: %v, want an error of Retry that is no io.EOF", err)
	}
}

// retried reports whether an error is one of [connect.Retry].
func retried(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if fmt.Sprintf("%T", err) == fmt.Sprintf("%T", connect.Retry(io.ErrUnexpectedEOF)) {
			return true
		}
	}
	return false
}

// TestBrokersThatGoAway checks that a cursor survives brokers that go away while it reads.
func TestBrokersThatGoAway(t *testing.T) {
	b := fake(t)
	topic := b.topic(1, nil)
	b.write(topic, 0, "a")
	r := b.reader(t, kafka.Topic[string, string]{Name: topic, Client: []kgo.Opt{kgo.MetadataMaxAge(20 * time.Millisecond), kgo.MetadataMinAge(10 * time.Millisecond)}})
	c := open(t, r, splits(t, r)[0], dataflow.Position{})
	equal(t, "before", read(t, c, records(1)).Values, []string{"a"})
	b.fake.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // long enough for the client to notice
	defer cancel()
	if err := fails(ctx, c); !errors.Is(err, context.DeadlineExceeded) && !retried(err) || errors.Is(err, io.EOF) {
		t.Errorf("%v, want none but that of the context, or one of Retry", err)
	}
}

// Case 57: no error of a failed login contains the password.
func TestSecretsAreNotTold(t *testing.T) {
	const right, wrong = "correct-horse-7", "battery-staple-9"
	b := fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "ann", right))
	with := func(pass string) []kgo.Opt {
		return []kgo.Opt{kgo.SASL(plain.Auth{User: "ann", Pass: pass}.AsMechanism()), kgo.RequestRetries(1), kgo.RetryTimeout(time.Second)}
	}
	var told []string
	tell := func(what string, x any) { told = append(told, fmt.Sprintf("%s: %v %+v %#v", what, x, x, x)) }
	topic := kafka.Topic[string, string]{Seeds: b.seeds, Name: "x", Decode: text, Client: with(wrong)}
	tell("topic", topic)
	r := b.reader(t, topic)
	tell("reader", r)
	if _, err := r.Splits(t.Context()); err == nil {
		t.Error("looking for splits with another password is no error")
	} else {
		tell("splits", err)
	}
	_, err := r.Open(t.Context(), connect.Split{ID: "kafka/AAAAAAAAAAAAAAAAAAAAAA/1"}, dataflow.Position{})
	tell("open", err)
	s := b.sink("x")
	s.Client = with(wrong)
	s.Timeout = time.Second
	tell("sink", s)
	_, _, err = s.Open(t.Context(), connect.Lane{Flow: "f", Output: "o"})
	if err == nil {
		t.Error("opening a lane with another password is no error")
	}
	tell("lane", err)
	w, _, err := kafka.PlainSink[string](s).Open(t.Context(), connect.Lane{Flow: "f", Output: "o"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_, err = w.Write(t.Context(), 1, []string{"a"})
	if err == nil {
		t.Error("writing with another password is no error")
	}
	tell("write", err)
	for _, text := range told {
		if strings.Contains(text, wrong) || strings.Contains(text, right) {
			t.Errorf("a password is in %s", text)
		}
	}

	in := dial(t, b.seeds, b.fake, with(right)...)
	name := in.topic(1, nil)
	in.write(name, 0, "a")
	good := in.reader(t, kafka.Topic[string, string]{Name: name, Client: with(right)})
	found := splits(t, good)
	equal(t, "with the password", read(t, open(t, good, found[0], dataflow.Position{}), records(1)).Values, []string{"a"})
	if strings.Contains(fmt.Sprintf("%+v", found), right) {
		t.Error("a password is in a split")
	}
}
