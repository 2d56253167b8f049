/* @NAME@: a model compiled by Stepwell @VERSION@ for WebAssembly. */

/** An array for each element type: halves are their bits where there is no Float16Array. */
export type Data =
  | Float32Array | Float64Array | Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array | Int32Array | Uint32Array
  | BigInt64Array | BigUint64Array;

/** An input or an output: a free size is its name, one that only a run can tell null. */
export interface Info {
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly (number | string | null)[];
  /** The number of the element type in ONNX. */
  readonly type: number;
}

export interface Tensor {
  data: Data;
  shape: number[];
  dtype: string;
}

export interface Given {
  data: Data;
  shape?: readonly number[];
}

export type Source = string | URL | ArrayBuffer | ArrayBufferView;

/** An error of the run time: `status` is its number in the header in C, `kind` its name. */
export class StepwellError extends Error {
  constructor(status: number, message: string);
  readonly status: number;
  readonly kind: string;
}

/** A model with its state, independent of all others. */
export class Model {
  private constructor();
  readonly inputs: readonly Info[];
  readonly outputs: readonly Info[];
  /** Run on arrays by name. Throws StepwellError. */
  run(arrays: Record<string, Data | Given>): Record<string, Tensor>;
  /** Forget the state that the model keeps from run to run. */
  reset(): void;
  /** Give the memory back; no run may follow. */
  close(): void;
}

/** Open the model: its module, and the file of its weights unless they are embedded. Both are beside this file by default. */
export function open(source?: Source | WebAssembly.Module, weights?: Source, options?: { verify?: boolean }): Promise<Model>;
