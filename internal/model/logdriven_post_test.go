package model

import (
	"fmt"
	"math/rand/v2"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A post holds the records in transit to each location of a log-driven flow, in order.
type post struct {
	waiting map[int][][]byte
}

func (m *post) put(location int, records ...[]byte) {
	if m.waiting == nil {
		m.waiting = make(map[int][][]byte)
	}
	m.waiting[location] = append(m.waiting[location], records...)
}

func (m *post) empty() bool {
	for _, records := range m.waiting {
		if len(records) > 0 {
			return false
		}
	}
	return true
}

// collect takes the records that the locations send to each other. It sends some of them twice.
func (m *post) collect(r *logDrivenRun, rng *rand.Rand) {
	for i, l := range r.executors {
		for _, x := range l.Moved() {
			x.Record.Source = fmt.Sprint("link ", i, " ", x.ID)
			for range 1 + rng.IntN(2)*rng.IntN(2) {
				m.put(x.Location, x.Record.Encode(nil))
			}
			sent := logdriven.SentRecord(x.Link, x.ID, x.Record.Number)
			m.put(i, sent.Encode(nil))
		}
	}
}

// step returns a step of a random location, with some of the records that wait for it.
func (m *post) step(rng *rand.Rand, locations int, now int64) logDrivenStep {
	s := logDrivenStep{location: rng.IntN(locations), now: now}
	all := m.waiting[s.location]
	n := len(all)
	if rng.IntN(2) == 0 {
		n = rng.IntN(n + 1)
	}
	s.records, m.waiting[s.location] = all[:n:n], all[n:]
	return s
}

// A callBook lists the nodes of a program that make calls, in order.
type callBook []int

func callsOf(p *Program) (all callBook) {
	for i := range p.nodes {
		if p.nodes[i].op.name == "keyedsingleton.MapAsync" {
			all = append(all, i)
		}
	}
	return all
}

// into returns a function that appends the answer of a call to answers, as a record for f.
func (c callBook) into(f *dataflow.Flow, answers *[][]byte) func(node, k, answer int) {
	return func(node, k, answer int) {
		n := 0
		for n < len(c) && c[n] != node {
			n++
		}
		op := operatorNumbers(graphOf(f).Ops(0), "keyedsingleton.MapAsync")[n]
		key, _ := durable.CBOR().Append(nil, k)
		value, _ := durable.CBOR().Append(nil, answer)
		r := codec.Record{Op: op, Kind: 1, Key: key, Value: value}
		*answers = append(*answers, r.Encode(nil))
	}
}

// operatorNumbers returns the indexes of the operators with a name.
func operatorNumbers(ops []*engine.Op, name string) (all []int32) {
	for _, op := range ops {
		if op.Name == name {
			all = append(all, op.Index)
		}
	}
	return all
}
