package durabletest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
)

// TestBatches crashes a program that sends batches, some of which are accepted only in
// part. With numbers, its votes are taken once, in order, and a key is claimed once.
func TestBatches(t *testing.T) {
	for name, build := range map[string]func(*dataflow.Flow) ports{
		"process": func(f *dataflow.Flow) ports { return build(dataflow.At[server](f)) },
		"cluster": func(f *dataflow.Flow) ports { return build(dataflow.At[members](f)) },
	} {
		t.Run(name, func(t *testing.T) {
			ks, vs := []string{"a", "b", "c", "b", "a", "c", "b", "c", "a", "a"}, []int{1, 10, 100, 20, 2, 200, 30, 300, 3, 4}
			claimed := make(map[string]bool)
			runs := Crash(t, Program[ports]{
				Build: build,
				Drive: func(ctx context.Context, p ports) error {
					if n, err := p.votes.SendBatchNumbered(ctx, 5, ks, vs); n != len(ks) || err != nil {
						return fmt.Errorf("%d of %d votes: %w", n, len(ks), err)
					}
					errs, err := p.claims.PutBatch(ctx, []string{"a", "b", "a", "c"}, []int{7, 7, 8, 7})
					if err != nil {
						return err
					}
					for i, k := range []string{"a", "b", "a", "c"} {
						if errs[i] != nil && !errors.Is(errs[i], dataflow.ErrDuplicateKey) {
							return fmt.Errorf("the claim of %s: %w", k, errs[i])
						}
						claimed[k] = claimed[k] || errs[i] == nil
					}
					if errs[2] == nil {
						return errors.New("the second claim of a was accepted")
					}
					return nil
				},
				Check: func(ctx context.Context, p ports) error {
					for k, want := range map[string]int{"a": 6, "b": 60, "c": 600} {
						if got, err := p.passed.Await(ctx, k); got != want || err != nil {
							return fmt.Errorf("the votes of %s are %d, %w; want %d", k, got, err, want)
						}
						if got, err := p.called.Await(ctx, k); got != 14 || err != nil {
							return fmt.Errorf("the claim of %s has %d, %w", k, got, err)
						}
					}
					return nil
				},
			}, Options{LostAnswers: true, Durable: durable.Options{Partitions: 3}})
			if runs < 20 || len(claimed) != 3 {
				t.Errorf("%d runs, and %v was claimed", runs, claimed)
			}
		})
	}
}
