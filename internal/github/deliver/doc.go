// Package deliver hands finished work over for review, and reads what became of its pull request.
package deliver
