// Package wrong reads the clock without a reason.
package wrong

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

type Gate struct{ dataflow.Process }

func over(asked dataflow.KeyedSingleton[string, string, Gate, bounds.BoundedValue]) {
	keyedsingleton.After(asked, time.Second)
}
