package durable

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// allVotes returns a flow like votes that in addition keeps what seen makes of the sum of all votes, and
// outputs how many it has kept.
func allVotes(seen func(sum int) int) func(*dataflow.Flow) quorumPorts {
	return func(f *dataflow.Flow) quorumPorts {
		votes, in := keyedstream.SharedInput[string, int](dataflow.At[server](f), "votes")
		ordered := keyedstream.AssumeOrder(in, "the sum of the votes and their number do not depend on the order")
		released := keyedstream.FoldEarlyStop(ordered, func() tally { return tally{} }, func(t *tally, v int) bool {
			t.Votes++
			return t.Votes == 3
		})
		all := dataflow.Fold(dataflow.AssumeOrder(keyedstream.Values(in), "as above"), func() tally { return tally{} }, func(t *tally, v int) {
			t.Votes++
			t.Sum = seen(t.Sum + v)
		})
		singleton.Output(singleton.Map(all, func(t tally) int { return t.Votes }), "total")
		return quorumPorts{votes, keyedsingleton.Output(released, "released")}
	}
}

// TestDigest kills a flow with state that it never outputs, and starts a program with the same output and
// another state. The first step with a digest reveals it. In the bubble digests take no time, so none is
// skipped for its cost.
func TestDigest(t *testing.T) {
	right, wrong := func(sum int) int { return sum }, func(sum int) int { return sum + 100 }
	for _, x := range []struct {
		name, operator string
		build          func(seen func(int) int) func(*dataflow.Flow) quorumPorts
		keyed          bool
	}{
		{"by key", "keyedstream.FoldEarlyStop (verify_test.go:", votes, true},
		{"of all", "dataflow.Fold (digest_test.go:", allVotes, false},
	} {
		for _, every := range []int{1, 0, 7, -1} {
			t.Run(fmt.Sprintf("%s/every=%d", x.name, every), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					log := journal.NewMemory(journal.MemoryOptions{})
					options := Options{Digest: every, StepBytes: 1}
					vote := func(build func(*dataflow.Flow) quorumPorts, from, to int) {
						t.Helper()
						app := start(t, log, build, options)
						for k := from; k < to; k++ {
							for v := range 3 {
								if err := app.Ports.votes.Send(t.Context(), fmt.Sprint("voter ", k), v); err != nil {
									t.Fatal(err)
								}
							}
							if _, err := app.Ports.released.Take(t.Context(), fmt.Sprint("voter ", k)); err != nil {
								t.Fatal(err)
							}
						}
						if options.Divergence == KeepRecorded {
							stop(t, app)
						} else {
							log.Crash()
							<-app.Done()
						}
						log = log.Reopen()
					}
					vote(x.build(right), 0, 40)
					vote(x.build(right), 40, 80)
					_, err := Start(t.Context(), x.build(wrong), quiet(Options{Log: journal.Opened{Log: log}}))
					if every < 0 {
						if err != nil {
							t.Fatal(err)
						}
						return
					}
					var diverged *DivergedError
					if !errors.As(err, &diverged) || !diverged.State || diverged.Err != nil || !strings.HasPrefix(diverged.Operator, x.operator) {
						t.Fatalf("the start of another program: %v", err)
					}
					if !x.keyed && every == 1 && diverged.Step > 8 || x.keyed != strings.HasPrefix(diverged.Key, "voter ") {
						t.Errorf("step %d, key %q", diverged.Step, diverged.Key)
					}
					for _, text := range []string{"partition 0, step ", "remembers something else", "KeepRecorded", diverged.Operator, diverged.Key} {
						if !strings.Contains(err.Error(), text) {
							t.Errorf("no %q in %v", text, err)
						}
					}

					log = log.Reopen()
					vote(x.build(right), 80, 81) // of which nothing was lost
					options.Divergence = KeepRecorded
					vote(x.build(wrong), 81, 100)
					options.Divergence = RefuseDivergence
					vote(x.build(wrong), 100, 101)
				})
			})
		}
	}
}

// BenchmarkDigest measures a step that changes 256 accounts of 100,000, with and without a digest.
func BenchmarkDigest(b *testing.B) {
	for _, digests := range []bool{false, true} {
		b.Run(fmt.Sprintf("digest=%v", digests), func(b *testing.B) {
			l := executorOf(b)
			if _, err := l.Begin(0); err != nil {
				b.Fatal(err)
			}
			cutter := l.Cutter()
			post := func(of []int) {
				data, err := CBOR().Append(nil, posting{Of: of})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := l.Step(1, [][]byte{(&codec.Record{Value: data}).Encode(nil)}, nil); err != nil {
					b.Fatal(err)
				}
			}
			of := make([]int, 256)
			for n := range 100_000 / len(of) {
				for i := range of {
					of[i] = n*len(of) + i
				}
				post(of)
			}
			for n := 0; b.Loop(); n++ {
				for i := range of {
					of[i] = (n*len(of) + i*389) % 100_000
				}
				if digests {
					cutter.Note()
				}
				post(of)
				if digests {
					if _, err := cutter.Digest(nil); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
