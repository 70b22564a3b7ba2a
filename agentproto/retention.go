package agentproto

import (
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A retention makes the inputs and outputs of a program. They remember their keys for a limited time, or forever if
// [ProgramOptions].Retain is zero. To a simulator the two are different programs, because what is forgotten after a time depends
// on the clock.
type retention struct {
	at     Host
	retain time.Duration
}

// never is longer than any history.
const never = 100 * 365 * 24 * time.Hour

// movedRetention is how long the new place of a moved call or thread is known at least. Callback URLs that were made before the
// move expire earlier (doc/protocol.md §12.1).
const movedRetention = 7 * 24 * time.Hour

const (
	lateMove = "a move has ended or was given up by then"
	lateCall = "a key that is put again so late is dropped if its call is not over, and else it is another call"
)

// putCalls makes the input of calls. It returns the calls and the failures of posting them.
func (p *Program) putCalls(r retention, opts ProgramOptions) (calls callsAt, inputs mergedAt) {
	const name = "calls"
	if r.retain == 0 {
		port, put := keyedsingleton.Input[CallKey, *Call](r.at, name)
		p.calls = port
		return keyedsingleton.IntoKeyedStream(put), post(p, put, opts)
	}
	port, put := keyedsingleton.InputWithin[CallKey, *Call](r.at, name, dataflow.Retain{For: max(1, r.retain/2)}, lateCall) // twice that at most
	p.calls = port
	return keyedsingleton.IntoKeyedStream(put), post(p, put, opts)
}

// putMoves makes the input of the steps of moves.
func putMoves(r retention, port **dataflow.EntryInputPort[moveKey, *move]) orderedAt {
	const name = "moves"
	if r.retain == 0 {
		in, put := keyedsingleton.Input[moveKey, *move](r.at, name)
		*port = in
		return keyedsingleton.IntoKeyedStream(put)
	}
	in, put := keyedsingleton.InputWithin[moveKey, *move](r.at, name, dataflow.Retain{For: movedRetention}, lateMove)
	*port = in
	return keyedsingleton.IntoKeyedStream(put)
}

// output makes an output of the first value of each key.
func output[K comparable, V any](
	r retention, ks dataflow.OrderedKeyedStream[K, V, Host],
	name string, keep time.Duration, why dataflow.NonDet,
) *dataflow.EntryOutputPort[K, V] {
	if r.retain == 0 {
		return keyedsingleton.Output(keyedstream.First(ks), name)
	}
	return keyedsingleton.Output(keyedstream.FirstWithin(ks, dataflow.Retain{For: keep}, why), name)
}
