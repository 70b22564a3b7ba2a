package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// The bank is a flow of four locations. A transfer arrives at the tellers and is decided at the
// branch of its source account. The decision comes back and is joined with the request. A granted
// amount goes to the savings of the target account, whose receipt comes back, too. The savings
// report to the auditor, in slices, how much they received. So every amount passes between
// locations five times, and a lost or repeated one shows in a balance.

type (
	tellers  struct{ dataflow.Cluster }
	branches struct{ dataflow.Cluster }
	savings  struct{ dataflow.Cluster }
	auditor  struct{ dataflow.Process }
)

const (
	accounts = 10
	capital  = 200_000 // of each account, before the first transfer
)

type transfer struct {
	ID       string
	From, To int
	Amount   int
}

// A decision is the result of a transfer at its source account.
type decision struct {
	ID      string
	Granted bool
	Left    int
}

// An outcome is what the caller of a transfer receives.
type outcome struct {
	Asked transfer
	decision
}

// A receipt holds the savings after a transfer.
type receipt struct {
	ID    string
	Total int
}

type bankPorts struct {
	transfers *dataflow.EntryInputPort[string, transfer]
	outcomes  *dataflow.EntryOutputPort[string, outcome]
	receipts  *dataflow.EntryOutputPort[string, receipt]
	audited   *dataflow.SingletonOutputPort[int]
}

func buildBank(f *dataflow.Flow, slow bool) bankPorts {
	const anyOrder = "the sums do not depend on the order of transfers"
	counter, branch, vault, audit := dataflow.At[tellers](f), dataflow.At[branches](f), dataflow.At[savings](f), dataflow.At[auditor](f)
	in, transfers := keyedsingleton.Input[string, transfer](counter, "transfers")
	asked := keyedsingleton.IntoKeyedStream(transfers)

	debits := keyedstream.Send(keyedstream.Rekey(asked, func(_ string, t transfer) int { return t.From }), branch)
	decided := keyedstream.Scan(keyedstream.AssumeOrder(debits, anyOrder), func() int { return capital }, func(left *int, t transfer, emit func(decision)) {
		if slow && t.Amount%10 == 0 {
			pass(context.Background(), 2*time.Millisecond)
		}
		granted := t.Amount <= *left
		if granted {
			*left -= t.Amount
		}
		emit(decision{t.ID, granted, *left})
	})
	back := keyedstream.Send(keyedstream.Rekey(decided, func(_ int, d decision) string { return d.ID }), counter)
	joined := keyedstream.Map(keyedstream.Join(asked, back), func(p dataflow.Pair[transfer, decision]) outcome { return outcome{p.First, p.Second} })
	outcomes := keyedstream.First(keyedstream.AssumeOrder(joined, "a transfer is decided once"))

	granted := keyedsingleton.IntoKeyedStream(keyedsingleton.Filter(outcomes, func(o outcome) bool { return o.Granted }))
	credits := keyedstream.Send(keyedstream.Rekey(granted, func(_ string, o outcome) int { return o.Asked.To }), vault)
	batch := slice.BatchKeyed(slice.At(vault), credits, "the auditor adds up what comes in, whatever comes together")
	amounts := keyedstream.Sum(keyedstream.Map(batch, func(o outcome) int { return o.Asked.Amount }))
	sums := keyedstream.Send(slice.EmitKeyed(keyedsingleton.IntoKeyedStream(amounts)), audit)
	saved := keyedstream.Scan(keyedstream.AssumeOrder(credits, anyOrder), func() int { return 0 }, func(total *int, o outcome, emit func(receipt)) {
		*total += o.Asked.Amount
		emit(receipt{o.ID, *total})
	})
	written := keyedstream.Send(keyedstream.Rekey(saved, func(_ int, r receipt) string { return r.ID }), counter)
	receipts := keyedstream.First(keyedstream.AssumeOrder(written, "a transfer has one receipt"))
	return bankPorts{
		in, keyedsingleton.Output(outcomes, "outcomes"), keyedsingleton.Output(receipts, "receipts"),
		singleton.Output(dataflow.Sum(keyedstream.Values(sums)), "audited"),
	}
}

// A bank is the flow and its customers.
type bank struct {
	calling
	app *durable.App[bankPorts]

	mu    sync.Mutex
	calls []*bankCall
	audit int // the auditor's total at the end
}

// A bankCall is what a customer knows about a transfer.
type bankCall struct {
	transfer transfer
	outcome  outcome
	receipt  receipt
	took     time.Duration
	err      error
}

func startBank(t testing.TB, o durable.Options) subject {
	t.Helper()
	return &bank{app: start(t, func(f *dataflow.Flow) bankPorts { return buildBank(f, false) }, o)}
}

func (b *bank) begun() uint64                  { return b.number.Load() }
func (b *bank) stop(ctx context.Context) error { return b.app.Stop(ctx) }
func (b *bank) metrics() durable.Metrics       { return b.app.Metrics() }

func (b *bank) call() {
	b.begin(callers, func(rng *rand.Rand) {
		b.transfer(transfer{ID: fmt.Sprint("t", b.number.Add(1)), From: rng.IntN(accounts), To: rng.IntN(accounts), Amount: 1 + rng.IntN(capital/200)})
	})
}

// transfer puts a transfer until it is accepted, and waits for its outcome and its receipt.
func (b *bank) transfer(t transfer) {
	c := &bankCall{transfer: t}
	began := time.Now()
	for {
		c.err = b.app.Ports.transfers.Put(b.ctx, t.ID, t)
		if c.err == nil || errors.Is(c.err, dataflow.ErrDuplicateKey) || b.ctx.Err() != nil {
			break
		}
		b.failures.Add(1)
		pass(b.ctx, 50*time.Millisecond)
	}
	if c.outcome, c.err = b.app.Ports.outcomes.Await(b.ctx, t.ID); c.err == nil && c.outcome.Granted {
		c.receipt, c.err = b.app.Ports.receipts.Await(b.ctx, t.ID)
	}
	c.took = time.Since(began)
	b.mu.Lock()
	b.calls = append(b.calls, c)
	b.mu.Unlock()
}

// rest ends the calls, and then asks each account and the auditor for their balances.
func (b *bank) rest(t testing.TB) {
	t.Helper()
	b.halt()
	for a := range accounts {
		b.transfer(transfer{ID: fmt.Sprint("balance ", a), From: a, To: a})
	}
	want := b.granted()
	for b.audit = range b.app.Ports.audited.Watch(b.ctx) {
		if b.audit >= want {
			break
		}
	}
	b.cancel()
}

// granted returns the sum of all granted transfers, as far as the customers know.
func (b *bank) granted() (sum int) {
	for _, c := range b.calls {
		if c.outcome.Granted {
			sum += c.transfer.Amount
		}
	}
	return sum
}

func (b *bank) check(w *world, took time.Duration) {
	w.t.Helper()
	var latency durations
	for _, c := range b.calls {
		latency.add(c.took)
	}
	b.verify(w.t)
	w.t.Logf("%d transfers in %v: %.0f/s; %d puts repeated; calls %v", len(b.calls), took.Round(time.Millisecond), float64(len(b.calls))/took.Seconds(), b.failures.Load(), &latency)
}

// verify compares what the customers know with the balances of the accounts and the auditor at the
// end.
func (b *bank) verify(t testing.TB) {
	t.Helper()
	var missing, wrong report
	left, saved := make(map[int]int), make(map[int]int)
	granted, refused := 0, 0
	for _, c := range b.calls {
		switch {
		case c.err != nil:
			missing.add("%+v: %v, %+v, %+v", c.transfer, c.err, c.outcome, c.receipt)
		case c.outcome.Asked != c.transfer || c.outcome.ID != c.transfer.ID || c.outcome.Granted && c.receipt.ID != c.transfer.ID:
			wrong.add("%+v: %+v, %+v", c.transfer, c.outcome, c.receipt)
		case c.outcome.Granted:
			left[c.transfer.From] += c.transfer.Amount
			saved[c.transfer.To] += c.transfer.Amount
			granted++
		default:
			refused++
		}
	}
	for _, c := range b.calls {
		if a := c.transfer.From; c.transfer.Amount == 0 && (c.outcome.Left != capital-left[a] || c.receipt.Total != saved[a]) {
			wrong.add("account %d has %d and %d at the end; by what was granted it has %d and %d", a, c.outcome.Left, c.receipt.Total, capital-left[a], saved[a])
		}
	}
	if want := b.granted(); b.audit != want {
		wrong.add("the auditor counted %d, and %d was granted", b.audit, want)
	}
	missing.end(t, "transfers missing")
	wrong.end(t, "transfers or balances wrong")
	if granted <= accounts {
		t.Errorf("nothing was checked: %d transfers were granted and %d refused", granted, refused)
	}
	t.Logf("%d transfers were granted and %d refused", granted, refused)
}

// TestBankOracle checks the checker: it must find each kind of damage.
func TestBankOracle(t *testing.T) {
	fresh := func() *bank {
		b := &bank{}
		left, saved := capital, 0
		for i := range accounts + 1 { // all from account 0 to account 1
			x := transfer{ID: fmt.Sprint("t", i), From: 0, To: 1, Amount: 10}
			left, saved = left-10, saved+10
			b.calls = append(b.calls, &bankCall{transfer: x, outcome: outcome{x, decision{x.ID, true, left}}, receipt: receipt{x.ID, saved}})
		}
		has := []struct{ left, saved int }{{left, 0}, {capital, saved}}
		for a, h := range has {
			x := transfer{ID: fmt.Sprint("balance ", a), From: a, To: a}
			b.calls = append(b.calls, &bankCall{transfer: x, outcome: outcome{x, decision{x.ID, true, h.left}}, receipt: receipt{x.ID, h.saved}})
		}
		b.audit = b.granted()
		return b
	}
	for name, damage := range map[string]func(b *bank){
		"nothing":              nil,
		"no answer":            func(b *bank) { b.calls[3].err = context.Canceled },
		"another's outcome":    func(b *bank) { b.calls[3].outcome = b.calls[4].outcome },
		"another's receipt":    func(b *bank) { b.calls[3].receipt = b.calls[4].receipt },
		"doubled debit":        func(b *bank) { b.calls[accounts+1].outcome.Left -= 10 },
		"lost debit":           func(b *bank) { b.calls[accounts+1].outcome.Left += 10 },
		"doubled credit":       func(b *bank) { b.calls[accounts+2].receipt.Total += 10 },
		"lost credit":          func(b *bank) { b.calls[accounts+2].receipt.Total -= 10 },
		"a slice seen twice":   func(b *bank) { b.audit += 10 },
		"a slice that is lost": func(b *bank) { b.audit -= 10 },
		"nothing granted":      func(b *bank) { b.calls, b.audit = nil, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			b := fresh()
			if damage != nil {
				damage(b)
			}
			found := &finder{TB: t}
			b.verify(found)
			if got := len(found.errors) > 0; got != (damage != nil) {
				t.Errorf("found: %q", found.errors)
			}
		})
	}
}
