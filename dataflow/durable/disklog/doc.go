// Package disklog keeps the log of a durable flow in a folder.
package disklog
