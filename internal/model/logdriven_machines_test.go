package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/machines"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// A robot is the state of a machine that uses most methods of a turn.
type robot struct{ Turns, Sum int }

// work calls the methods of the turn that the number x selects.
func (r *robot) work(x int, do *keyedstream.TimedTurn[seat, string, int]) {
	r.Turns, r.Sum = r.Turns+1, (r.Sum*31+x)%1009
	if x%2 == 0 {
		do.Emit(fmt.Sprint(r.Turns, " ", r.Sum, " at ", do.Now()))
	}
	if x%5 < 2 {
		do.Decide(r.Sum)
	}
	if x%4 > 0 {
		do.After(keyedstream.Timer(x%3), time.Duration(x%7-1)*time.Minute)
	}
	if x%3 == 0 {
		do.Stop(keyedstream.Timer((x + 1) % 3))
	}
	if x%11 < 4 {
		do.ForgetAfter(time.Duration(x%9) * time.Minute)
	}
	if x%13 < 2 {
		do.Forget()
	}
}

// rung emits that a timer fired. In its first 20 turns the robot then works.
func (r *robot) rung(t keyedstream.Timer, do *keyedstream.TimedTurn[seat, string, int]) {
	if do.Emit(fmt.Sprint("timer ", t, " at ", do.Now())); r.Turns < 20 {
		r.work(r.Sum+int(t), do)
	}
}

// timedMachines is a flow of two machines: one with timers and one without.
func timedMachines(at here, see func(string)) []hands {
	in, values := keyedstream.Input[seat, int](at, "in")
	told, decided := keyedstream.TimedMachine(values, func() robot { return robot{} }, (*robot).work, (*robot).rung, why)
	out := keyedstream.Output(told, "told")
	keyedsingleton.InspectWithKey(decided, func(k seat, x int) { see(fmt.Sprint("decided ", k, x)) })
	singleton.Output(keyedsingleton.KeyCount(decided), "count")
	thirds, some := keyedstream.Machine(values, func() []int { return nil }, func(all *[]int, x int, do *keyedstream.Turn[seat, []int, int]) {
		if *all = append(append([]int{}, *all...), x); len(*all) == 3 {
			do.Emit(*all)
			do.Forget()
		} else if x%2 == 0 {
			do.Decide(x)
		}
	})
	keyedstream.InspectWithKey(thirds, func(k seat, all []int) { see(fmt.Sprint("thirds ", k, all)) })
	singleton.Output(singleton.Map(keyedsingleton.IntoSingleton(some), func(v dataflow.View[seat, int]) (all []string) {
		for k, x := range v.All() {
			all = append(all, fmt.Sprint(k, x))
		}
		return all
	}), "some")
	return []hands{{func(rng *rand.Rand) error { return in.Send(context.Background(), somewhere(rng, 30), rng.IntN(1000)) },
		func() { out.Next(canceled) }}}
}

// callingMachines is a flow of a machine that makes calls and sets timers.
func callingMachines(at here, see func(string)) []hands {
	type turn = keyedstream.CallingTurn[int, string, string, int]
	in, values := keyedstream.Input[int, int](at, "in")
	ask := func(_ context.Context, c keyedstream.Call[int, int]) string { return fmt.Sprint(c) }
	work := func(r *robot, x int, do *turn) {
		r.Turns, r.Sum = r.Turns+1, (r.Sum*31+x)%1009
		switch {
		case x%7 == 0:
			do.Forget()
			return
		case x%5 < 3:
			do.Call(r.Sum)
		}
		if x%3 == 0 {
			do.Call(-r.Sum)
		}
		if x%4 == 0 {
			do.After(keyedstream.Timer(x%2), time.Duration(x%5)*time.Minute)
		}
		if x%11 < 2 {
			do.ForgetAfter(time.Duration(x%9) * time.Minute)
		}
	}
	told, decided := keyedstream.CallingMachine(values, func() robot { return robot{} }, work,
		func(r *robot, t keyedstream.Timer, do *turn) { work(r, r.Sum+int(t), do) },
		keyedstream.Calling(ask, func(r *robot, q int, z string, do *turn) {
			r.Turns++
			do.Emit(fmt.Sprint(*r, q, z))
			if q > 500 {
				do.Decide(z)
			} else if q < 0 {
				do.Call(r.Sum)
			}
		}, keyedstream.CallOptions{}), why)
	out := keyedstream.Output(told, "told")
	keyedsingleton.InspectWithKey(decided, func(k int, x string) { see(fmt.Sprint("decided ", k, x)) })
	singleton.Output(keyedsingleton.KeyCount(decided), "count")
	return []hands{{func(rng *rand.Rand) error { return in.Send(context.Background(), rng.IntN(3), rng.IntN(1000)) },
		func() { out.Next(canceled) }}}
}

// guessedAnswers returns answers to calls of callingMachines. Only some of the calls were made.
func guessedAnswers(rng *rand.Rand, op int32) (all [][]byte) {
	for range rng.IntN(60) {
		c := durable.CBOR()
		key, _ := c.Append(nil, machines.CallKey[int]{Key: rng.IntN(3), Life: uint64(1 + rng.IntN(6)), Number: uint32(1 + rng.IntN(4))})
		value, _ := c.Append(nil, machines.Answer[int, string]{Request: rng.IntN(1000) - 300, Result: fmt.Sprint(rng.IntN(5))})
		r := codec.Record{Op: op, Kind: codec.KindAnswer, Key: key, Value: value}
		all = append(all, r.Encode(nil))
	}
	return all
}
