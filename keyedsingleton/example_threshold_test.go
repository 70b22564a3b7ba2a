package keyedsingleton_test

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A motion passes when it has as many votes as it requires. The required number may arrive
// before or after the votes.
func ExampleThreshold() {
	dataflow.Local(func(at dataflow.Here) {
		vote, votes := keyedstream.Input[string, string](at, "votes")
		require, required := keyedsingleton.Input[string, int](at, "required")
		passed := keyedsingleton.Threshold(keyedstream.Count(votes), required)
		dataflow.Print(keyedsingleton.Entries(passed))

		ctx := context.Background()
		require.Put(ctx, "motion 1", 2)
		for _, voter := range []string{"ann", "bob", "cid"} {
			vote.Send(ctx, "motion 1", voter)
			vote.Send(ctx, "motion 2", voter)
		}
		require.Put(ctx, "motion 2", 1)
		require.Put(ctx, "motion 3", 1)
	})
	// Unordered output:
	// motion 1:2
	// motion 2:1
}

func ExampleThresholdUniform() {
	dataflow.Local(func(at dataflow.Here) {
		in, failures := keyedstream.Input[string, string](at, "failed logins")
		locked := keyedsingleton.ThresholdUniform(keyedstream.Count(failures), 3)
		dataflow.Print(keyedsingleton.Keys(locked))

		for _, who := range []string{"eve", "ann", "eve", "eve", "eve"} {
			in.Send(context.Background(), who, "wrong password")
		}
	})
	// Output:
	// eve
}

func ExampleGet() {
	dataflow.Local(func(at dataflow.Here) {
		found := keyedsingleton.Get(accounts(at), singleton.Of(at, "bob"))
		dataflow.Print(optional.IntoStream(found))
		missed := keyedsingleton.Get(accounts(at), singleton.Of(at, "eve"))
		dataflow.Print(optional.IntoStream(missed))
	})
	// Output:
	// -30
}

func ExampleMaxKey() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(optional.IntoStream(keyedsingleton.MaxKey(accounts(at))))
	})
	// Output:
	// cid:7
}

func ExampleWithoutKeys() {
	dataflow.Local(func(at dataflow.Here) {
		closed := dataflow.Of(at, "bob")
		dataflow.Print(keyedsingleton.Entries(keyedsingleton.WithoutKeys(accounts(at), closed)))
	})
	// Unordered output:
	// ann:120
	// cid:7
}

// An idle session is removed, and the number of sessions decreases.
func ExampleForgetAfter() {
	ctx := context.Background()
	flow := dataflow.New()
	in, clicks := keyedstream.Input[string, string](dataflow.At[Bank](flow), "clicks")
	sessions := keyedsingleton.ForgetAfter(keyedstream.Count(clicks), time.Millisecond, "an idle session ends when it is time")
	number := slice.Snapshot(slice.At(dataflow.At[Bank](flow)), keyedsingleton.KeyCount(sessions), "a gauge may skip a number")
	dataflow.Print(slice.Emit(singleton.IntoStream(number)))

	in.Send(ctx, "ann", "balance")
	in.Send(ctx, "bob", "transfer")
	in.Close()
	dataflow.Run(ctx, flow) // waits for the timers
	// Output:
	// 0
	// 2
	// 0
}

func ExampleTryMap() {
	dataflow.Local(func(at dataflow.Here) {
		paid, refused := keyedsingleton.TryMap(accounts(at), func(cents int) (int, error) {
			if cents < 10 {
				return 0, fmt.Errorf("not covered")
			}
			return cents - 10, nil
		})
		dataflow.Print(keyedsingleton.Entries(paid))
		dataflow.Print(keyedsingleton.Entries(refused))
	})
	// Unordered output:
	// ann:110
	// bob:-30: not covered
	// cid:7: not covered
}

func ExampleFilterMapWithKey() {
	dataflow.Local(func(at dataflow.Here) {
		reminders := keyedsingleton.FilterMapWithKey(accounts(at), func(who string, cents int) (string, bool) {
			return fmt.Sprintf("dear %s, you owe %d", who, -cents), cents < 0
		})
		dataflow.Print(keyedsingleton.Values(reminders))
	})
	// Output:
	// dear bob, you owe 30
}

func ExampleLookupKeyedStream() {
	dataflow.Local(func(at dataflow.Here) {
		type owner = dataflow.Entry[string, string]
		owners := keyedstream.First(dataflow.Keyed(dataflow.Of(at, owner{Key: "card 1", Value: "ann"}, owner{Key: "card 2", Value: "eve"})))
		payments := dataflow.Keyed(dataflow.Of(at, account{Key: "ann", Value: 5}, account{Key: "ann", Value: 12}))
		// The owner of a card is looked up among the payments, and a miss is kept.
		dataflow.Print(keyedstream.Entries(keyedsingleton.LookupKeyedStream(owners, payments)))
	})
	// Unordered output:
	// card 1:(ann, 5)
	// card 1:(ann, 12)
	// card 2:(eve, none)
}
