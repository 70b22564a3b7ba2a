package logdriven

// Sources returns for how many senders, inputs and keys the last number is remembered. The owner of the executor calls it between
// steps.
func (ex *Executor) Sources() int { return ex.sources.table.Len() }
