//go:build millraceplans

package engine

const stepsArePlanned = true
