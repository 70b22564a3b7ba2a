package conversation

import (
	"bytes"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/internal/rerun"
)

var seed = flag.Int64("seed", 0, "seed of the random tests; 0 takes one from the clock")

// A caught is a testing.TB that panics at the first failure, so that a property can shrink it.
type caught struct {
	testing.TB
	said string
}

func (c *caught) Helper() {}

func (c *caught) Errorf(format string, args ...any) { c.Fatalf(format, args...) }

func (c *caught) Fatalf(format string, args ...any) {
	c.said = fmt.Sprintf(format, args...)
	panic(c)
}

// TestN76_HistoryAccounts sends and resolves random things in a thread, in an order that may make no sense. After each step it
// compares the thread's count of bytes with the size of the messages that it holds: see book.follow. It catches a thread that
// drops too much or nothing because its sum has drifted.
func TestN76_HistoryAccounts(t *testing.T) {
	if *seed == 0 {
		*seed = time.Now().UnixNano()
	}
	trimmed, steps, summaries := 0, 0, 0
	once := func(all []int) (why string) {
		c := &caught{TB: t}
		defer func() {
			if r := recover(); r == any(c) {
				why = c.said
			} else if r != nil {
				panic(r)
			}
		}()
		b := newBook(c, Limits{History: 8000, Rounds: 1 << 30, Retain: time.Hour})
		b.sums = true
		if len(all)%2 == 0 {
			b.bound = 3000
		}
		made, transfer := 0, 1
		defer func() {
			trimmed += b.s.Kept.First
			steps += len(all)
			summaries += b.summaries
		}()
		for _, n := range all {
			draw := func(most int) (x int) { x, n = n%most, n/most; return x }
			what, words := draw(8), strings.Repeat("x", draw(40)*draw(40))
			var say []*Reply
			for range draw(3) {
				r := &Reply{Text: words}
				for range draw(3) {
					made++
					r.Calls = append(r.Calls, Call{ID: fmt.Sprint("c", made), Name: "a", Arguments: `{"text":"` + words + `"}`})
				}
				say = append(say, r)
			}
			id := fmt.Sprint("c", 1+draw(made+1))
			if len(b.s.Batch) > 0 && draw(4) > 0 {
				id = b.s.Batch[draw(len(b.s.Batch))].Call.ID
			}
			switch what {
			case 0, 1:
				b.tell(input{Kind: said, Text: words}, say...)
			case 2, 3, 4:
				b.resolve(id, len(words), say...)
			case 5:
				b.tell(input{Kind: []inputKind{authorizing, resumed, unsubscribed}[draw(3)], Call: id}, say...)
			case 6:
				b.tell(input{Kind: happened, Event: &Event{Call: Call{ID: id, Name: "a"}, Text: words, Final: draw(4) == 0}}, say...)
			case 7:
				switch draw(8) {
				case 0, 1, 2:
					b.tell(input{Kind: interrupted}, say...)
				case 3:
					transfer++
					b.tell(input{Kind: moves, Step: uint8(handover.Freeze), Migration: fmt.Sprint(transfer, ".m")}, say...)
				case 4, 5, 6:
					b.tell(input{Kind: moves, Step: uint8(handover.Abort), Migration: fmt.Sprint(transfer, ".m")}, say...)
				default:
					b.tell(input{Kind: closed}, say...)
				}
			}
		}
		return ""
	}
	params := gopter.DefaultTestParametersWithSeed(*seed)
	params.MinSuccessfulTests, params.MinSize, params.MaxSize = 400, 20, 100
	properties := gopter.NewProperties(params)
	properties.Property("a thread counts what it keeps", prop.ForAll(once, gen.SliceOf(gen.IntRange(0, min(1<<50, math.MaxInt-1)))))
	var report bytes.Buffer
	if !properties.Run(gopter.NewFormatedReporter(false, 100, &report)) {
		t.Errorf("%s\nrerun: %s", &report, rerun.Line(t.Name(), "-seed", fmt.Sprint(*seed)))
	}
	if trimmed < 1000 || summaries < 100 {
		t.Errorf("%d messages were dropped and %d summaries made in %d steps, too few to show anything (seed %d)", trimmed, summaries, steps, *seed)
	}
	t.Logf("seed %d: %d steps, %d messages dropped, %d summaries", *seed, steps, trimmed, summaries)
}
