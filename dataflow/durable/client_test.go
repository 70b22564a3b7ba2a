package durable

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

type paymentPorts[V any] struct {
	in  *dataflow.EntryInputPort[string, V]
	out *dataflow.EntryOutputPort[string, V]
}

func payments[V any](f *dataflow.Flow) paymentPorts[V] {
	in, all := keyedsingleton.Input[string, V](dataflow.At[members](f), "payments")
	return paymentPorts[V]{in, keyedsingleton.Output(all, "paid")}
}

// A payer is a client that runs a program of its own. It puts payments, and waits for payments.
type payer struct {
	put, await func(key string) error
	quarantine func(context.Context) ([]Letter, error)
	sent       chan struct{} // receives a value for each record in the log
	stop       func()
}

// payerOf starts a client whose program has V as the type of payments.
func payerOf[V any](t *testing.T, opts Options, v V) payer {
	sent := make(chan struct{}, 100)
	opts.Client, opts.Log = true, telling{opts.Log, sent}
	app := start(t, nil, payments[V], opts)
	return payer{
		sent:       sent,
		quarantine: app.Quarantine,
		put:        func(key string) error { return app.Ports.in.Put(t.Context(), key, v) },
		await:      func(key string) error { _, err := app.Ports.out.Await(t.Context(), key); return err },
		stop:       func() { stop(t, app) },
	}
}

// payers returns clients with other versions of the program. The owner's payments have an Amount
// and a Tax.
func payers(t *testing.T, opts Options) map[string]payer {
	same := func() payer {
		type payment struct{ Amount, Tax int }
		return payerOf(t, opts, payment{100, 7})
	}
	renamed := func() payer {
		type payment struct{ Total, Tax int }
		return payerOf(t, opts, payment{100, 7})
	}
	kind := func() payer {
		type payment struct {
			Amount string
			Tax    int
		}
		return payerOf(t, opts, payment{"100", 7})
	}
	earlier := func() payer {
		type payment struct{ Amount int }
		return payerOf(t, opts, payment{100})
	}
	later := func() payer {
		type payment struct{ Amount, Tax, Tip int }
		return payerOf(t, opts, payment{100, 7, 3})
	}
	return map[string]payer{
		"the same": same(), "a field renamed": renamed(), "another kind of field": kind(), "a field less": earlier(), "a field more": later(),
		"another type": payerOf(t, opts, 100),
	}
}

// unfit maps each payer that the owner cannot understand to a part of its error.
var unfit = map[string]string{
	"a field renamed":       "input payments takes durable.payment with Amount, and this program sends it with Total",
	"another kind of field": "input payments takes field Amount of durable.payment as int, and this program sends it as string",
	"another type":          "input payments takes string, durable.payment, and this program sends string, int",
}

// TestClientsOfOtherPrograms has clients with other versions of a program send. What the owner
// would misread is refused before the first record. If no owner exists that could refuse it, it is
// quarantined.
func TestClientsOfOtherPrograms(t *testing.T) {
	type payment struct{ Amount, Tax int }
	opts := Options{Log: natslog.Servers(natslog.Options{URLs: []string{natsServer(t)}, Replicas: 1, AssumeDurable: true}), Name: "payments", Partitions: 2}
	owner := start(t, nil, payments[payment], opts)
	for name, p := range payers(t, opts) {
		err := p.put(name)
		switch why := unfit[name]; {
		case why == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case why == "":
			got, err := owner.Ports.out.Await(t.Context(), name)
			if err != nil || got.Amount != 100 {
				t.Errorf("%s: %v, %v", name, got, err)
			}
			if err := p.await(name); err != nil {
				t.Errorf("%s: await: %v", name, err)
			}
		case !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), why):
			t.Errorf("%s: %v, want %q in it", name, err, why)
		}
		p.stop()
	}
	if letters, err := owner.Quarantine(t.Context()); err != nil || len(letters) > 0 {
		t.Errorf("in quarantine: %v, %v", letters, err)
	}
	stop(t, owner)

	all := payers(t, opts)
	ends := make(map[string]chan error)
	for name, p := range all {
		end := make(chan error, 1)
		ends[name] = end
		go func() { end <- p.put("alone " + name) }()
	}
	for _, p := range all { // sent before the partitions have an owner
		<-p.sent
	}
	owner = start(t, nil, payments[payment], opts)
	for name, end := range ends {
		err := <-end
		why, refused := unfit[name]
		var q *QuarantinedError
		if !refused && err != nil || refused && !errors.As(err, &q) {
			t.Errorf("alone, %s: %v", name, err)
		}
		all[name].stop()
		if q == nil {
			continue
		}
		letters, err := owner.Quarantine(t.Context())
		if text := fmt.Sprint(letters); err != nil || !strings.Contains(text, why) {
			t.Errorf("alone, %s: in quarantine is %s, %v", name, text, err)
		}
	}
	want, err := owner.Quarantine(t.Context())
	if err != nil || len(want) != len(unfit) {
		t.Fatalf("in quarantine are %v, %v", want, err)
	}
	asks := payerOf(t, opts, payment{100, 7})
	got, err := asks.quarantine(t.Context())
	for i := range min(len(got), len(want)) { // the times are in another time zone
		if got[i].At.Equal(want[i].At) {
			got[i].At = want[i].At
		}
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("a client is told that %v is in quarantine, want %v, %v", got, want, err)
	}
	stop(t, owner)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, err := asks.quarantine(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody owns the partitions, and a client is told that %v is in quarantine, %v", got, err)
	}
	asks.stop()
}

// A telling log reports each record that it has appended.
type telling struct {
	journal.Opener
	sent chan<- struct{}
}

type tellingLog struct {
	journal.Shared
	sent chan<- struct{}
}

func (t telling) Open(ctx context.Context, o journal.OpenOptions) (journal.Log, error) {
	log, err := t.Opener.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return tellingLog{log.(journal.Shared), t.sent}, nil
}

func (t tellingLog) Append(ctx context.Context, partition int, records ...[]byte) (uint64, error) {
	at, err := t.Shared.Append(ctx, partition, records...)
	if err == nil {
		t.sent <- struct{}{}
	}
	return at, err
}
