package recordings

import (
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/seal"
)

// historyOf returns the engine's form of a recording; see package seal.
func historyOf(r *dataflow.Recording) *engine.Recording {
	if r == nil {
		engine.Unmade("dataflow.Recording", "make one with new(dataflow.Recording)")
	}
	return seal.Pointer(r)
}

// recorderOf returns the public form of a recorder.
func recorderOf(r engine.FileRecorder) *dataflow.Recorder {
	public := new(dataflow.Recorder)
	*seal.Pointer(public) = r
	return public
}
