package script

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
)

// A Flow builds the flow of a script: it declares inputs and outputs.
type Flow func(s *Stage)

// A Stage is the place where a Flow builds, with the arguments of the script.
type Stage struct {
	At   dataflow.Here
	args map[string]string
	used map[string]bool

	inputs  map[string]*input
	outputs []output
}

// A Word is the type of keys and values in a script.
type Word interface{ ~string | ~int }

// An input says how lines reach an input of the flow.
type input struct {
	verb   string
	parse  func(rest string) (record, error)
	close  func()
	batch  func(ctx context.Context, rs []record) error // nil if there is no SendBatch
	loose  bool                                         // order does not matter
	repeat bool                                         // repeats do not matter
}

// A record is a value, or a key and a value, ready to be sent.
type record struct {
	value any
	send  func(ctx context.Context) error
}

// An output is something that is shown.
type output struct {
	name string
	news func() []string // returns what is new since the last call
}

func newStage(at dataflow.Here, args map[string]string) *Stage {
	return &Stage{At: at, args: args, used: make(map[string]bool), inputs: make(map[string]*input)}
}

// Arg returns an argument of the script, or missing if there is none.
func (s *Stage) Arg(name, missing string) string {
	s.used[name] = true
	if v, ok := s.args[name]; ok {
		return v
	}
	return missing
}

// Int is [Stage.Arg] for a number.
func (s *Stage) Int(name string, missing int) int {
	n, err := strconv.Atoi(s.Arg(name, strconv.Itoa(missing)))
	if err != nil {
		panic(fmt.Sprintf("script: the argument %s is no number", name))
	}
	return n
}

func word[T Word](text string) (x T, err error) {
	var n int
	switch p := any(&x).(type) {
	case *string:
		*p = text
		return x, nil
	case *int:
		if n, err = strconv.Atoi(text); err != nil {
			return x, fmt.Errorf("%q is no number", text)
		}
		*p = n
		return x, nil
	}
	return x, fmt.Errorf("values of type %T have to be string or int", x)
}

func (s *Stage) add(name string, in *input) *input {
	if s.inputs[name] != nil {
		panic("script: there are two inputs " + name)
	}
	s.inputs[name] = in
	return in
}

// Input declares an input that is a stream.
func Input[T Word](s *Stage, name string) dataflow.Stream[T, dataflow.Here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	stream, _ := streamInput[T](s, name)
	return stream
}

func streamInput[T Word](s *Stage, name string) (dataflow.Stream[T, dataflow.Here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], *input) {
	port, stream := dataflow.Input[T](s.At, name)
	in := s.add(name, &input{
		verb: "send", close: port.Close,
		parse: func(rest string) (record, error) {
			x, err := word[T](rest)
			return record{x, func(ctx context.Context) error { return port.Send(ctx, x) }}, err
		},
		batch: func(ctx context.Context, rs []record) error {
			xs := make([]T, len(rs))
			for i, r := range rs {
				xs[i] = r.value.(T)
			}
			_, err := port.SendBatch(ctx, xs)
			return err
		},
	})
	return stream, in
}

// Unordered is [Input] for a stream without order: runs in which its records come in
// another order must show the same.
func Unordered[T Word](s *Stage, name string) dataflow.Stream[T, dataflow.Here, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
	stream, in := streamInput[T](s, name)
	in.loose = true
	return dataflow.WeakenOrder(stream)
}

// Repeated is [Input] for a stream whose elements may be repeated: runs in which each
// of its records comes twice must show the same.
func Repeated[T Word](s *Stage, name string) dataflow.Stream[T, dataflow.Here, bounds.Unbounded, dataflow.TotalOrder, dataflow.AtLeastOnce] {
	stream, in := streamInput[T](s, name)
	in.repeat = true
	return dataflow.AssumeRepeats(stream)
}

// pairOf parses a key and a value.
func pairOf[K, V Word](rest string) (k K, v V, err error) {
	key, value, ok := strings.Cut(rest, " ")
	if !ok {
		return k, v, fmt.Errorf("%q is one word: want a key and a value", rest)
	}
	if k, err = word[K](key); err == nil {
		v, err = word[V](value)
	}
	return k, v, err
}

// Keyed declares an input that is a keyed stream.
func Keyed[K, V interface {
	comparable
	Word
}](s *Stage, name string) dataflow.KeyedStream[K, V, dataflow.Here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	port, stream := keyedstream.Input[K, V](s.At, name)
	s.add(name, &input{verb: "send", close: port.Close, parse: func(rest string) (record, error) {
		k, v, err := pairOf[K, V](rest)
		return record{k, func(ctx context.Context) error { return port.Send(ctx, k, v) }}, err
	}})
	return stream
}

// Entries declares an input that is a keyed singleton.
func Entries[K, V interface {
	comparable
	Word
}](s *Stage, name string) dataflow.KeyedSingleton[K, V, dataflow.Here, bounds.BoundedValue] {
	port, entries := keyedsingleton.Input[K, V](s.At, name)
	s.add(name, &input{verb: "put", close: port.Close, loose: true, parse: func(rest string) (record, error) {
		k, v, err := pairOf[K, V](rest)
		return record{k, func(ctx context.Context) error { return port.Put(ctx, k, v) }}, err
	}})
	return entries
}

// impatient returns a context that has ended, for reading only what is available.
func impatient() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func drain[T any](out *dataflow.OutputPort[T]) (words []string) {
	for {
		x, err := out.Next(impatient())
		if err != nil {
			return words
		}
		words = append(words, fmt.Sprint(x))
	}
}

// Show shows the elements of a stream, in order if it has one.
func Show[T any, O dataflow.Order, R dataflow.Retries](s *Stage, name string, x dataflow.Stream[T, dataflow.Here, bounds.Unbounded, O, R]) {
	out := dataflow.Output(x, name)
	var order O
	_, ordered := any(order).(dataflow.TotalOrder)
	s.outputs = append(s.outputs, output{name, func() []string {
		words := drain(out)
		if !ordered {
			slices.Sort(words)
		}
		return words
	}})
}

// ShowKeyed shows the values of a keyed stream: those of a key on one line.
func ShowKeyed[K comparable, V any](s *Stage, name string, x dataflow.KeyedStream[K, V, dataflow.Here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
	out := keyedstream.Output(x, name)
	s.outputs = append(s.outputs, output{name, func() []string {
		all := make(map[string][]string)
		for {
			e, err := out.Next(impatient())
			if err != nil {
				break
			}
			k := fmt.Sprint(e.Key)
			all[k] = append(all[k], fmt.Sprint(e.Value))
		}
		var words []string
		for _, k := range slices.Sorted(maps.Keys(all)) {
			words = append(words, k+":"+strings.Join(all[k], " "))
		}
		return words
	}})
}

// ShowEntries shows the entries of a keyed singleton whose values never change, as
// they appear.
func ShowEntries[K comparable, V any, B bounds.FixedValues[Keys], Keys bounds.Stream](s *Stage, name string, x dataflow.KeyedSingleton[K, V, dataflow.Here, B]) {
	out := keyedsingleton.Output(x, name)
	var mu sync.Mutex // a timer runs the location on another goroutine
	var fresh []K
	keyedsingleton.InspectWithKey(x, func(k K, _ V) {
		mu.Lock()
		defer mu.Unlock()
		fresh = append(fresh, k)
	})
	s.outputs = append(s.outputs, output{name, func() (words []string) {
		mu.Lock()
		keys := fresh
		fresh = nil
		mu.Unlock()
		for _, k := range keys {
			v, err := out.Take(impatient(), k)
			if err != nil {
				words = append(words, fmt.Sprintf("%v is not there: %v", k, err))
				continue
			}
			words = append(words, fmt.Sprintf("%v:%v", k, v))
		}
		slices.Sort(words)
		return words
	}})
}

// showChange shows a value whenever it differs from that at the last tick.
func showChange(s *Stage, name string, now func() string) {
	last := ""
	s.outputs = append(s.outputs, output{name, func() []string {
		if text := now(); text != last {
			last = text
			return []string{text}
		}
		return nil
	}})
}

// ShowContent shows the whole content of a keyed singleton, in the order of keys,
// when it has changed.
func ShowContent[K comparable, V any, B bounds.Keyed[Keys], Keys bounds.Stream](s *Stage, name string, x dataflow.KeyedSingleton[K, V, dataflow.Here, B]) {
	out := singleton.Output(keyedsingleton.IntoSingleton(x), name)
	showChange(s, name, func() string {
		v, _ := out.Latest()
		var words []string
		for k, x := range v.All() {
			words = append(words, fmt.Sprintf("%v:%v", k, x))
		}
		slices.Sort(words)
		return "{" + strings.Join(words, " ") + "}"
	})
}

// ShowValue shows a value when it has changed.
func ShowValue[T any, B bounds.Singleton](s *Stage, name string, x dataflow.Singleton[T, dataflow.Here, B]) {
	out := singleton.Output(x, name)
	showChange(s, name, func() string { v, _ := out.Latest(); return fmt.Sprint(v) })
}

// ShowMaybe shows a value when it has changed or disappeared.
func ShowMaybe[T any, B bounds.Singleton](s *Stage, name string, x dataflow.Optional[T, dataflow.Here, B]) {
	out := optional.Output(x, name)
	showChange(s, name, func() string {
		if v, ok := out.Latest(); ok {
			return fmt.Sprint(v)
		}
		return "none"
	})
}
